"""What needs no download: reviews that a grammar writes, a tokenizer of them, a tiny Qwen3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zotune.addresses import instance_generator

if TYPE_CHECKING:
    import numpy as np

TINY_MODEL, MADE_DATASET = "tiny-qwen3", "made-reviews"
VOCABULARY = 384
SIZES = {"train": 1024, "validation": 256}

LABELS = ("bad", "good")
JUDGEMENTS = {
    "bad": ["bad", "dull", "clumsy", "tedious", "awful", "bland", "lifeless", "shallow"],
    "good": ["good", "moving", "clever", "charming", "superb", "fresh", "vivid", "honest"],
}
THINGS = ["film", "story", "acting", "music", "ending", "script", "cast", "camera"]
DEGREES = ["", "quite ", "very ", "always ", "rather "]
FRAMES = [
    "the {thing} is {degree}{judgement}",
    "a {degree}{judgement} {thing}",
    "i found the {thing} {degree}{judgement}",
    "what a {judgement} {thing}",
]


def made_rows(split: str, size: int | None, seed: int) -> list[dict[str, Any]]:
    """Reviews of one or two clauses, half of them good; all words of one agree with its label."""
    rng = instance_generator(MADE_DATASET, split, seed)
    labels = [LABELS[at % 2] for at in range(size or SIZES[split])]
    return [{"text": _review(rng, label), "label": label} for label in labels]


def _review(rng: np.random.Generator, label: str) -> str:
    clauses = [_clause(rng, label) for _ in range(1 + int(rng.integers(2)))]
    return " and ".join(clauses) + " ."


def _clause(rng: np.random.Generator, label: str) -> str:
    def one_of(words: list[str]) -> str:
        return words[int(rng.integers(len(words)))]

    return one_of(FRAMES).format(
        thing=one_of(THINGS), degree=one_of(DEGREES), judgement=one_of(JUDGEMENTS[label])
    )


def tiny_tokenizer() -> Any:
    """A byte-level BPE trained on the reviews: it reads any text, and knows these words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [row["text"] for row in made_rows("train", SIZES["train"], 0)]
    tokenizer.train_from_iterator(texts, trainer)
    wrap: Any = PreTrainedTokenizerFast
    return wrap(tokenizer_object=tokenizer, pad_token="<pad>")


def tiny_config() -> Any:
    """Qwen3 in all but size; its embedding and its output head are one tensor."""
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )
