# %% [markdown]
# # In a Ray pipeline, with Optuna and ASHA
#
# `zotune.ZOTrainable` in a `tune.Tuner` of your own: Optuna proposes estimator, q and step size, ASHA ends what falls behind, and both
# count in queries.

# %%
import matplotlib.pyplot as plt
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search import ConcurrencyLimiter
from ray.tune.search.optuna import OptunaSearch

import zotune

budget = 2000
space = {
    "problem": {"name": "quadratic", "dim": 50},
    "budget": budget,
    "count": "directions",
    "replicates": 3,
    "estimator": tune.choice(["avg", "align"]),
    "q": tune.choice([1, 5, 10, 25, 50]),
    "eta": tune.loguniform(0.25, 4.0),  # a multiple of the theory's step
    "update": "sgd",
    "step": "theory",
}
tuner = tune.Tuner(
    zotune.ZOTrainable,
    param_space=space,
    tune_config=tune.TuneConfig(
        metric="loss",
        mode="min",
        num_samples=8,
        reuse_actors=True,
        search_alg=ConcurrencyLimiter(OptunaSearch(seed=0), 2),
        scheduler=ASHAScheduler(time_attr="spent", max_t=budget, grace_period=250),
    ),
    run_config=tune.RunConfig(
        verbose=0, checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True)
    ),
)
with zotune.local_ray():
    results = tuner.fit()
best = results.get_best_result()
print(zotune.load_run(best))

# %%
figure, axis = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
names = set()
for at in range(len(results)):
    config, rows = results[at].config, results[at].metrics_dataframe
    name, chosen = config["estimator"], results[at].path == best.path
    if chosen:
        label = f"best: {name}, q={config['q']}, eta={config['eta']:.2g}"
    else:
        label = None if name in names else name
        names.add(name)
    axis.semilogy(
        rows["spent"],
        rows["gap"],
        marker="o",
        ms=3,
        color="C0" if name == "align" else "C1",
        lw=3 if chosen else 1,
        label=label,
    )
axis.set(xlabel="directions spent", ylabel="f(x) − f*", title="curves that end early: ASHA")
axis.set_yticks([30, 100, 300], ["30", "100", "300"])
axis.minorticks_off()
axis.legend()
figure.savefig("ray_pipeline.png", dpi=110)
