"""A tokenizer that panics, or fails in any other way, is a TextError wherever it is used."""

import json

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import mha_viz as mv
from mha_viz.errors import ArgumentError, TextError
from mha_viz.text.encoding import continuing, id_of, label_of
from mha_viz.text.tokens import encode, tokenizer_errors
from tests.making.checkpoints import TEXT

ASTRAY = "(z+)+$"  # tries every way to part a run of "z" that something else follows
TEXT_OF_Z = "z" * 40 + "!"


@pytest.fixture(scope="module")
def panicking() -> PreTrainedTokenizerFast:
    words = {"[UNK]": 0, "z": 1, TEXT_OF_Z: 2}
    fast = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.Split(Regex(ASTRAY), "isolated")
    fast.decoder = decoders.Replace(Regex(ASTRAY), "")
    return PreTrainedTokenizerFast(tokenizer_object=fast, unk_token="[UNK]")


@pytest.mark.parametrize(
    "use",
    [
        lambda tokenizer: encode(tokenizer, TEXT_OF_Z, max_length=9),
        lambda tokenizer: id_of(tokenizer, TEXT_OF_Z, spaced=False),
        lambda tokenizer: label_of(tokenizer, 2),
    ],
    ids=["encode", "id_of", "label_of"],
)
def test_every_use_of_it_says_that_the_tokenizer_cannot_read(panicking, use):
    with pytest.raises(TextError, match=r"tokenizer cannot read .*retry-limit"):
        use(panicking)
    assert label_of(panicking, 1) == "z" and continuing(panicking, [1]) == (False,)


def test_a_model_whose_tokenizer_panics_on_one_text_reads_others(folder, tmp_path):
    model = mv.load(str(folder))
    model.tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    parts = json.loads(path.read_text())
    split = {"type": "Split", "pattern": {"Regex": ASTRAY}, "behavior": "Isolated", "invert": False}
    both = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, split]}
    path.write_text(json.dumps(parts | {"pre_tokenizer": both}))
    model = mv.wrap(model.network, PreTrainedTokenizerFast.from_pretrained(tmp_path))
    with pytest.raises(TextError, match="cannot read this text"):
        model.trace(TEXT_OF_Z)
    assert model.trace(TEXT).text == TEXT


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError])
def test_what_is_not_the_tokenizers_passes(error):
    with pytest.raises(error), tokenizer_errors():
        raise error
    with pytest.raises(ArgumentError), tokenizer_errors():
        raise ArgumentError("ours")
