# %% [markdown]
# # A tiny language model, fine-tuned with forward passes and used
#
# A random tiny Qwen3 learns to tell reviews apart without a single gradient, is exported, and answers through the `pipeline` of
# transformers. Nothing is downloaded.

# %%
import matplotlib.pyplot as plt
from transformers import pipeline

import zotune
from zotune.language import export_run

study = zotune.load_study(
    "tiny-lm", settings=["space.eta=[20]", "space.q=[20]", "space.estimator=[avg]", "budget=2000"]
)
results = study.run(storage_path="results", tracking_uri="none")
run = results.best
print(run)

# %% [markdown]
# The best trial becomes a folder that transformers loads.

# %%
exported = export_run(results.get_best_result("loss", "min").path, "my-model")
classify = pipeline("text-classification", "my-model")
texts = ["a very good film .", "the story is dull ."]
answers = classify(texts)
for text, answer in zip(texts, answers, strict=True):
    print(f"{text:25} {answer['label']} {answer['score']:.2f}")

# %%
looked = run.curve.drop_duplicates("loss")  # held-out texts are looked at about sixteen times a run
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.plot(looked["spent"], looked["loss"], "o-")
axis.set_xlabel("directions spent, two forward passes each at most")
axis.set_ylabel("held-out cross-entropy", color="C0")
other = axis.twinx()
other.plot(looked["spent"], looked["accuracy"], "s--", color="C1")
other.set_ylabel("held-out accuracy", color="C1")
figure.savefig("language_model.png", dpi=110)
