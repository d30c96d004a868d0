"""Models that people look for: what each is, and about how large what is fetched of it.

All have safetensors weights on the Hub and ask for no agreement.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SuggestedModel:
    """One model of the Hub that is worth a place in the menu.

    Args:
        name: its Hub id.
        about: what it is, in a few words.
        n_bytes: of its weights on the Hub, rounded.
    """

    name: str
    about: str
    n_bytes: int


_MB = 10**6
SUGGESTED = (
    SuggestedModel(
        "google-bert/bert-base-uncased",
        "BERT, English in lower case: the model of most papers on heads",
        440 * _MB,
    ),
    SuggestedModel("google-bert/bert-base-cased", "BERT, English as it is written", 436 * _MB),
    SuggestedModel("google-bert/bert-base-multilingual-cased", "BERT, 104 languages", 714 * _MB),
    SuggestedModel(
        "distilbert/distilbert-base-uncased", "DistilBERT: BERT with half of the layers", 268 * _MB
    ),
    SuggestedModel("FacebookAI/roberta-base", "RoBERTa: BERT trained for longer", 499 * _MB),
    SuggestedModel(
        "sentence-transformers/all-MiniLM-L6-v2",
        "MiniLM, whose output stands for a sentence; it predicts no tokens",
        91 * _MB,
    ),
    SuggestedModel("openai-community/gpt2", "GPT-2, the smallest of four", 548 * _MB),
    SuggestedModel(
        "distilbert/distilgpt2", "DistilGPT-2: GPT-2 with half of the layers", 353 * _MB
    ),
    SuggestedModel("EleutherAI/pythia-70m", "Pythia, 6 layers, made for research", 166 * _MB),
    SuggestedModel("EleutherAI/pythia-160m", "Pythia, 12 layers, made for research", 375 * _MB),
    SuggestedModel(
        "HuggingFaceTB/SmolLM2-135M", "a small model built as Llama, with 3 key heads", 269 * _MB
    ),
    SuggestedModel("Qwen/Qwen2.5-0.5B", "a small Qwen, with 2 key heads", 988 * _MB),
)


def suggested(here: set[str]) -> list[SuggestedModel]:
    """Those that are not on this machine.

    Args:
        here: names of models that are; the Hub's older ones have no owner ("bert-base-uncased").
    """
    known = {name.rpartition("/")[2] for name in here if "/" not in name} | here
    return [one for one in SUGGESTED if not {one.name, one.name.rpartition("/")[2]} & known]
