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
    "tiny-lm", settings=["space.eta=[30]", "space.q=[1]", "space.estimator=[avg]", "budget=600"]
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
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.plot(run.curve["spent"], run.curve["loss"], label="held-out loss")
axis.set(xlabel="directions spent, two forward passes each at most", ylabel="cross-entropy")
if "accuracy" in run.curve:
    other = axis.twinx()
    other.plot(run.curve["spent"], run.curve["accuracy"], color="C1", label="accuracy")
    other.set_ylabel("accuracy", color="C1")
axis.legend()
figure.savefig("language_model.png", dpi=110)
