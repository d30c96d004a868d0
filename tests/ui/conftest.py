"""Models for tests of pages: the shipped ones, and tiny ones of many kinds on disk."""

import functools
from collections.abc import Callable, Iterator

import pytest
import transformers as tf
from streamlit.errors import StreamlitAPIException
from streamlit.runtime.fragment import MemoryFragmentStorage

import mha_viz as mv
from mha_viz.ui.jobs import calls
from mha_viz.ui.operating.settings import settings
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.state import selection
from tests.making.checkpoints import WORDS, gpt2, save, spread
from tests.making.families import FAMILIES
from tests.ui import one_search  # noqa: F401
from tests.ui.compare_app import MODELS, TEXT


def sizes(n_layers: int, n_heads: int, width: int = 8) -> dict[str, int]:
    both = dict(num_hidden_layers=n_layers, num_attention_heads=n_heads, hidden_size=width)
    return both | dict(vocab_size=len(WORDS), intermediate_size=9, max_position_embeddings=31)


def bert(n_layers: int, n_heads: int, **options: object) -> tf.BertConfig:
    return tf.BertConfig(**sizes(n_layers, n_heads), **options)


def deberta() -> tf.DebertaV2Config:
    apart = dict(relative_attention=True, pos_att_type="p2c|c2p")
    return tf.DebertaV2Config(**sizes(2, 4, 20), **apart)


@pytest.fixture(autouse=True)
def whole_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every event run the whole page: `AppTest` forgets all but the fragments that ran."""

    def refuse(*given: object) -> list[str]:
        raise StreamlitAPIException("no fragment of this key")

    monkeypatch.setattr(MemoryFragmentStorage, "resolve_target", refuse)


@pytest.fixture
def operated() -> Iterator[Callable[..., None]]:
    """`operated(public=1, max_tokens=32)`: a server that is set so, for one test."""
    with pytest.MonkeyPatch.context() as environment:

        def operated(**values: object) -> None:
            for name, value in values.items():
                environment.setenv(f"MHA_VIZ_{name.upper()}", str(value))
            settings.cache_clear()

        yield operated
    for models in (memory._loaded, memory.untrained_copy, memory.induction):
        models.clear()  # they take as many tokens as that server allowed
    settings.cache_clear()  # last: a thread behind the pages may have looked until now


@pytest.fixture(autouse=True)
def done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages start no process, whose import of torch would take longer than most of these tests.

    So a test may put a function of its own in the place of one of ours. Other processes have tests
    of their own (`test_heavy.py`, `lanes/`), and the browser tests use them.
    """
    monkeypatch.setattr(heavy, "_fits_twice", lambda n_bytes: False)
    monkeypatch.setattr(calls, "OURS", (*calls.OURS, "tests."))


_load_once = functools.cache(mv.load)


@pytest.fixture(scope="module", autouse=True)
def loaded_once() -> Iterator[None]:
    """Load a model that tests here ask the library for once; pages load their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mv, "load", _load_once)
        yield


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Their folders by name, as if somebody had typed each of them before."""
    of_pairs = {
        "headless": tf.BertModel(bert(1, 1)),
        "one": tf.BertForMaskedLM(bert(1, 1)),
        "two": tf.BertForMaskedLM(bert(1, 2)),
        "tall": tf.BertForMaskedLM(bert(3, 1)),
        "deberta": tf.DebertaV2ForMaskedLM(deberta()),
    }
    names = dict(enumerate(["bad", "so-so", "good"]))
    named = {"id2label": names, "label2id": {name: i for i, name in names.items()}}
    one, many = {0: "stars"}, {"problem_type": "multi_label_classification"}
    of_texts = {"classes": named, "labels": named | many, "number": {"id2label": one}}
    of_pairs |= {
        name: tf.BertForSequenceClassification(bert(2, 4, **more))
        for name, more in of_texts.items()
    }
    of_pairs["tags"] = tf.BertForTokenClassification(bert(2, 4, **named))
    of_pairs["answers"] = tf.BertForQuestionAnswering(bert(2, 4))
    of_one_text = {
        "t5": tf.T5ForConditionalGeneration(FAMILIES["t5"][0]),
        "llama": tf.LlamaForCausalLM(FAMILIES["llama"][0]),
        "gpt2": gpt2(),
    }
    folder = tmp_path_factory.mktemp("models")
    for name, network in (of_pairs | of_one_text).items():
        save(spread(network), folder / name, pairs=name in of_pairs)
    found = {path.name: str(path) for path in folder.iterdir()}
    selection.folders().update(found.values())
    return found


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> mv.AttentionModel:
    """One shipped model after the other."""
    return mv.load(request.param)


@pytest.fixture(scope="module")
def record(model: mv.AttentionModel) -> mv.AttentionRecord:
    """Trace the text that the Compare page is tested with."""
    return model.trace(TEXT)


@pytest.fixture
def cookies(monkeypatch):
    """Set the cookies that the browser of pages opened from now on sends."""
    sent: dict[str, str] = {}
    monkeypatch.setattr("streamlit.runtime.context.ContextProxy.cookies", property(lambda _: sent))
    return sent
