"""AttentionRecord: what it refuses, the views it makes (by hand-computed numbers), and its file."""

import dataclasses
import json
import pickle
import struct
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from mha_viz.core import record_file
from mha_viz.core.record import AttentionRecord, Token
from mha_viz.errors import ArgumentError, NotKeptError, RecordError

LAYERS, HEADS, TOKENS, D_HEAD, D_KEY, D_MODEL = 2, 3, 5, 7, 11, 13


def tokens_of(*words: int | None, segments: tuple[int, ...] = ()) -> tuple[Token, ...]:
    """Tokens t0, t1 ... that belong to these words; None is a special token."""
    return tuple(
        Token(f"t{i}", 10 + i, word=word, is_special=word is None,
              segment=segments[i] if segments else 0)
        for i, word in enumerate(words)
    )  # fmt: skip


def make(**changes) -> AttentionRecord:
    """[CLS] wal ##king cats [SEP], every tensor kept."""
    generator = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    fields = dict(
        pattern=draw(LAYERS, HEADS, TOKENS, TOKENS).softmax(-1),
        tokens=(
            Token("[CLS]", 2, is_special=True), Token("wal", 17, 0, 3, word=0),
            Token("king", 19, 3, 7, word=0), Token("cats", 23, 8, 12, word=1),
            Token("[SEP]", 3, is_special=True),
        ),
        z=draw(LAYERS, HEADS, TOKENS, D_HEAD),
        query=draw(LAYERS, HEADS, TOKENS, D_KEY),
        key=draw(LAYERS, HEADS, TOKENS, D_KEY),
        scale=(0.5, 0.25),
        W_O=tuple(draw(HEADS, D_HEAD, D_MODEL) for _ in range(LAYERS)),
        model="m", family="f", text="Walking cats",
    )  # fmt: skip
    return AttentionRecord(**(fields | changes))


def plain(rows: list[list[float]], tokens: tuple[Token, ...], **fields) -> AttentionRecord:
    """One head with these weights."""
    return AttentionRecord(torch.tensor([[rows]]), tokens, **fields)


@pytest.fixture
def as_users_have_it(monkeypatch):
    """Without the types that the tests check in addition: the record's own checks answer."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def close(actual: torch.Tensor, expected: object) -> bool:
    return torch.allclose(actual, torch.as_tensor(expected), atol=1e-6)


# -- what a record is ----------------------------------------------------------------------------


def test_sizes_labels_and_parts():
    record = make()
    assert (record.n_layers, record.n_heads, record.is_cross) == (LAYERS, HEADS, False)
    assert record.labels == record.key_labels == ("[CLS]", "wal", "king", "cats", "[SEP]")
    cross = AttentionRecord(
        torch.full((1, 1, 2, 3), 1 / 3), tokens_of(0, 1), tokens_of(4, 5, 6), part="cross"
    )
    assert cross.is_cross and len(cross.labels) == 2 and len(cross.key_labels) == 3


def test_it_is_frozen():
    record = make()
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.model = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.tokens[0].text = "other"


def test_repr_is_one_short_line():
    text = "a very long text " * 100
    line = repr(make(text=text))
    assert line.startswith("AttentionRecord('a very long text") and len(line) < 200
    assert "layers=2, heads=3, queries=5, keys=5, keeps z query key" in line
    assert repr(make().merge_words()).endswith(", keeps z, merged)")


def test_equality_is_by_value_and_there_is_no_hash():
    assert make() == make() and make() is not make()
    assert make() != make(model="other") and make() != make(z=None)
    assert make() != make(notes=("cut",)) and make() != "a record"
    other = make().pattern.clone()
    other[0, 0, 0] = other[0, 0, 0].flip(0)
    assert make() != make(pattern=other)
    with pytest.raises(TypeError):
        hash(make())


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (1, 2), (-1, -1), (-2, -3), (1, -2)])
def test_head_counts_from_both_ends(layer, head):
    record = make()
    assert torch.equal(record.head(layer, head), record.pattern[layer][head])


@pytest.mark.parametrize(
    ("layer", "head", "named"),
    [(2, 0, r"layer must lie in 0\.\.1, got 2"), (-3, 0, "layer"), (0, 3, "head"),
     (0, -4, r"head must lie in 0\.\.2, got -4")],
)  # fmt: skip
def test_head_beyond_either_end(layer, head, named):
    with pytest.raises(ArgumentError, match=named):
        make().head(layer, head)


def test_head_output_is_z_times_the_heads_slice_of_w_o():
    record = make()
    expected = torch.stack(
        [
            torch.stack([record.z[layer, head] @ record.W_O[layer][head] for head in range(HEADS)])
            for layer in range(LAYERS)
        ]
    )
    assert record.head_output.shape == (LAYERS, HEADS, TOKENS, D_MODEL)
    assert torch.allclose(record.head_output, expected, atol=1e-5)
    assert make(W_O=tuple(w.bfloat16() for w in record.W_O)).head_output.dtype == torch.float32


def test_what_was_not_kept_is_said_with_what_to_do():
    with pytest.raises(NotKeptError, match=r'keep=\("pattern", "query"\)'):
        make(query=None).kept("query")
    assert make().kept("z") is not None
    with pytest.raises(NotKeptError, match="does not hold z"):
        _ = make(z=None).head_output
    with pytest.raises(NotKeptError, match="W_O"):
        _ = make(W_O=()).head_output
    assert isinstance(NotKeptError("x"), AttributeError)  # so that hasattr() asks


# -- what it refuses -----------------------------------------------------------------------------


def weights(**at: float) -> torch.Tensor:
    pattern = torch.full((1, 1, 2, 2), 0.5)
    for place, value in at.items():
        pattern[0, 0, int(place[1]), int(place[2])] = value
    return pattern


@pytest.mark.parametrize(
    "pattern",
    [weights(_00=float("nan")), weights(_11=float("inf")), weights(_10=-float("inf")),
     weights(_01=-0.01), weights(_01=1.1, _00=0.0), weights(_10=0.9)],
    ids=["NaN", "infinity", "minus infinity", "negative", "above 1", "row sum above 1"],
)  # fmt: skip
def test_numbers_that_are_no_weights(pattern):
    with pytest.raises(RecordError, match="must hold attention weights"):
        AttentionRecord(pattern, tokens_of(0, 1))


def test_rows_may_sum_to_less_and_to_a_little_more():
    AttentionRecord(weights(_00=0.0, _01=0.0), tokens_of(0, 1))  # a query that sees nothing
    AttentionRecord(weights(_10=0.504), tokens_of(0, 1))  # bfloat16
    with pytest.raises(RecordError):
        AttentionRecord(weights(_10=0.52), tokens_of(0, 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(tokens=tokens_of(0, 1)), "5 queries and 5 keys, but there are 2 tokens"),
        (dict(key_tokens=tokens_of(0, 1)), "2 key tokens"),
        (dict(z=torch.zeros(LAYERS, HEADS, 4, D_HEAD)), r"z must be .* begin with \(2, 3, 5\)"),
        (dict(query=torch.zeros(LAYERS, 1, TOKENS, D_KEY)), "query must be"),
        (dict(key=torch.zeros(1, HEADS, TOKENS, D_KEY)), "key must be"),
        (dict(removed=torch.zeros(LAYERS, HEADS, 4)), r"removed must be .* 3 axes"),
        (dict(z=torch.zeros(LAYERS, HEADS, TOKENS)), "z must be .* of 4 axes"),
        (dict(z=torch.zeros(LAYERS, HEADS, TOKENS, D_HEAD, dtype=torch.int8)), "got torch.int8"),
        (dict(W_O=(torch.zeros(HEADS, D_HEAD, D_MODEL),)), "W_O must have 2 layers, got 1"),
        (dict(scale=(1.0, 1.0, 1.0)), "scale must have 2 layers, got 3"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_shapes_that_do_not_fit(changes, message, as_users_have_it):
    with pytest.raises(RecordError, match=message):
        make(**changes)


@pytest.mark.parametrize(
    "pattern", [torch.full((1, 1, 2, 2), 0.5, dtype=torch.float64), torch.zeros(0, 1, 2, 2)]
)
def test_patterns_of_another_kind(pattern):
    with pytest.raises(RecordError, match="pattern must"):
        AttentionRecord(pattern, tokens_of(0, 1))


# -- words ---------------------------------------------------------------------------------------


def test_mass_to_a_word_is_summed_and_mass_from_it_averaged():
    # a | b1 b2 | c: the middle two are one word
    record = plain(
        [[0.1, 0.2, 0.3, 0.4],
         [0.0, 0.5, 0.25, 0.25],
         [0.6, 0.1, 0.1, 0.2],
         [0.7, 0.0, 0.3, 0.0]],
        tokens_of(0, 1, 1, 2),
    )  # fmt: skip
    merged = record.merge_words()
    expected = [[0.1, 0.5, 0.4], [0.3, 0.475, 0.225], [0.7, 0.3, 0.0]]
    assert close(merged.pattern[0, 0], expected)
    assert merged.merged and merged.labels == ("t0", "t1t2", "t3")
    assert [token.id for token in merged.tokens] == [10, -1, 13]
    assert close(record.pattern[0, 0, 0], [0.1, 0.2, 0.3, 0.4])  # the first one is as it was
    assert merged.merge_words() is merged


def test_a_words_label_is_its_slice_of_the_text():
    merged = make(text="Walking cats").merge_words()
    assert merged.labels == ("[CLS]", "Walking", "cats", "[SEP]")
    word = merged.tokens[1]
    assert (word.start, word.end, word.word, word.is_special) == (0, 7, 0, False)


def test_special_tokens_and_segments_keep_words_apart():
    tokens = (
        *tokens_of(None, 4, 4, None, None),
        dataclasses.replace(tokens_of(4)[0], segment=1, start=0, end=2),
        dataclasses.replace(tokens_of(4)[0], segment=1, start=2, end=4),
    )
    record = plain(torch.full((7, 7), 1 / 7).tolist(), tokens, text="xxxx", text_pair="über")
    merged = record.merge_words()
    assert merged.labels == ("t0", "t1t2", "t3", "t4", "über")
    assert close(merged.pattern[0, 0, 1], torch.tensor([1, 2, 1, 1, 2]) / 7)
    # The same word number in two segments, with nothing between them
    both = plain([[0.5, 0.5], [0.5, 0.5]], tokens_of(4, 4, segments=(0, 1)))
    assert both.merge_words().labels == ("t0", "t1")


def test_cross_attention_merges_each_axis_by_its_own_words():
    record = AttentionRecord(
        torch.tensor([[[[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]]]]),
        tokens_of(0, 0), tokens_of(0, 1, 1), part="cross",
    )  # fmt: skip
    merged = record.merge_words()
    assert close(merged.pattern[0, 0], [[0.3, 0.7]])
    assert (len(merged.tokens), len(merged.key_tokens)) == (1, 2)


def test_z_of_words_is_what_the_averaged_rows_give():
    record = make()
    values = torch.randn(LAYERS, HEADS, TOKENS, D_HEAD)
    merged = make(z=record.pattern @ values).merge_words()
    average = torch.tensor(
        [[1, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1.0]]
    )
    assert torch.allclose(merged.z, average @ record.pattern @ values, atol=1e-5)
    assert merged.query is None and merged.key is None
    # Reading the values by words' means would be another quantity unless they agree inside a word.
    values[:, :, 2] = values[:, :, 1]
    merged = make(z=record.pattern @ values).merge_words()
    assert torch.allclose(merged.z, merged.pattern @ values[:, :, [0, 1, 3, 4]], atol=1e-5)
    assert torch.allclose(  # the output weights still apply to it
        merged.head_output, torch.stack([z @ W for z, W in zip(merged.z, merged.W_O, strict=True)])
    )


# -- tokens left out -----------------------------------------------------------------------------

ROWS = [[0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.5, 0.0], [0.6, 0.1, 0.1, 0.2], [0.25] * 4]


def test_special_tokens_go_from_both_axes():
    record = plain(ROWS, tokens_of(None, 0, 1, None), z=torch.arange(4.0).reshape(1, 1, 4, 1))
    kept = record.without_special(renormalize=False)
    assert close(kept.pattern[0, 0], [[0.5, 0.5], [0.1, 0.1]])
    assert kept.labels == kept.key_labels == ("t1", "t2")
    assert kept.z.flatten().tolist() == [1.0, 2.0]
    assert close(kept.removed[0, 0], [0.0, 0.8]) and close(kept.removed_mass, [[0.4]])
    scaled = record.without_special()
    assert close(scaled.pattern[0, 0], [[0.5, 0.5], [0.5, 0.5]])
    assert close(scaled.removed_mass, [[0.4]])
    assert record.removed is None and record.removed_mass is None


def test_a_record_without_special_tokens_is_itself():
    record = plain(ROWS, tokens_of(0, 1, 2, 3))
    assert record.without_special() is record


def test_the_first_token_goes_from_both_axes():
    kept = plain(ROWS, tokens_of(0, 1, 2, 3)).without_first()
    assert close(kept.pattern[0, 0], [[0.5, 0.5, 0], [0.25, 0.25, 0.5], [1 / 3, 1 / 3, 1 / 3]])
    assert close(kept.removed[0, 0], [0.0, 0.6, 0.25])
    assert close(kept.removed_mass, [[0.85 / 3]])


@pytest.mark.parametrize(
    "renormalize", [(True, True), (True, False), (False, True), (False, False)]
)
def test_two_removals_count_as_one_of_both(renormalize):
    """Rows 2 and 3 keep the keys 2 and 3: 0.1 + 0.2 and 0.25 + 0.25 of their mass."""
    record = plain(ROWS, tokens_of(None, 0, 1, 2))
    kept = record.without_special(renormalize[0]).without_first(renormalize[1])
    assert kept.labels == ("t2", "t3")
    assert close(kept.removed[0, 0], [0.7, 0.5]) and close(kept.removed_mass, [[0.6]])
    if any(renormalize[1:]):
        assert close(kept.pattern[0, 0], [[1 / 3, 2 / 3], [0.5, 0.5]])
    if not any(renormalize):
        assert close(kept.pattern[0, 0], [[0.1, 0.2], [0.25, 0.25]])


def test_rows_with_nothing_left_are_zeros():
    record = plain([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [1 - 1e-7, 1e-7, 0.0]], tokens_of(None, 0, 1))
    kept = record.without_special()
    assert kept.pattern.count_nonzero() == 0 and not kept.pattern.isnan().any()
    assert close(kept.removed[0, 0], [1.0, 1.0])
    again = kept.without_first()  # of nothing, nothing more can go
    assert again.pattern.count_nonzero() == 0 and close(again.removed[0, 0], [1.0])


def test_a_query_that_saw_nothing_lost_nothing():
    record = plain([[1.0, 0, 0], [0, 0, 0], [0.5, 0, 0.5]], tokens_of(None, 0, 1))
    assert close(record.without_special().removed[0, 0], [0.0, 0.5])


def test_the_keys_of_cross_attention_lose_their_own():
    record = AttentionRecord(
        torch.tensor([[[[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]]]]),
        tokens_of(0, 1), tokens_of(0, None, 1), part="cross",
        query=torch.zeros(1, 1, 2, 1), key=torch.arange(3.0).reshape(1, 1, 3, 1),
    )  # fmt: skip
    kept = record.without_special(renormalize=False)
    assert close(kept.pattern[0, 0], [[0.2, 0.5], [0.4, 0.2]])
    assert close(kept.removed_mass, [[0.35]])
    assert kept.query.shape[2] == 2 and kept.key.flatten().tolist() == [0.0, 2.0]


def test_something_has_to_be_left():
    with pytest.raises(ArgumentError, match="Nothing would be left"):
        plain([[0.5, 0.5], [0.5, 0.5]], tokens_of(None, None)).without_special()
    with pytest.raises(ArgumentError, match="Nothing would be left"):
        plain([[1.0]], tokens_of(0)).without_first()


def test_merging_and_removing_commute_where_nothing_special_is_split():
    one, other = (
        make().merge_words().without_special(False),
        make().without_special(False).merge_words(),
    )
    assert one.labels == other.labels == ("Walking", "cats")
    assert torch.allclose(one.pattern, other.pattern, atol=1e-6)
    assert torch.allclose(one.removed, other.removed, atol=1e-6)


words_and_specials = st.lists(
    st.sampled_from(["special", "new", "same"]), min_size=1, max_size=13
).map(lambda kinds: _words(kinds))


def _words(kinds: list[str]) -> list[int | None]:
    words: list[int | None] = []
    for i, kind in enumerate(kinds):
        last = next((word for word in reversed(words) if word is not None), i)
        words.append({"special": None, "new": i, "same": last}[kind])
    return words


@given(words=words_and_specials, seed=st.integers(0, 99), renormalize=st.booleans())
def test_whatever_is_merged_or_removed_rows_stay_whole(words, seed, renormalize):
    n = len(words)
    drawn = torch.randn(2, 3, n, n, generator=torch.Generator().manual_seed(seed)) * 5
    record = AttentionRecord(drawn.softmax(-1), tokens_of(*words))
    merged = record.merge_words()
    assert close(merged.pattern.sum(-1), torch.ones(2, 3, len(merged.tokens)))
    specials = sum(word is None for word in words)
    assert sum(token.is_special for token in merged.tokens) == specials
    if specials == n:
        return
    for view in (record, merged):
        kept = view.without_special(renormalize)
        gone = torch.zeros(2, 3, len(kept.tokens)) if kept.removed is None else kept.removed
        assert not specials or kept.removed is not None
        left = torch.where(
            gone > 1 - 1e-5, kept.pattern.sum(-1), torch.ones(()) if renormalize else 1 - gone
        )
        assert torch.allclose(kept.pattern.sum(-1), left, atol=1e-5)


# -- files ---------------------------------------------------------------------------------------


def test_a_record_comes_back_from_its_file_as_it_was(tmp_path):
    record = make(
        tokens=tuple(
            Token(text, i, i, i + 1, word=i)
            for i, text in enumerate(["naïve", "👍 1/4", "<b>", "\u202e", "日本"])
        ),
        text='ü"\\\n\u2028', text_pair="👩‍👩‍👧", causal=True, notes=("cut ✂",),
    ).without_first()  # fmt: skip
    path = record.save(tmp_path / "new" / "folder" / "r.safetensors")
    back = AttentionRecord.load(path)
    assert back == record
    assert torch.equal(back.removed, record.removed) and torch.equal(back.key, record.key)
    assert back.scale == record.scale == (0.5, 0.25)
    assert back.W_O == ()  # the model's own weights are not part of what a text left behind
    assert AttentionRecord.load(str(path)) == record


def test_cross_attention_and_small_records_come_back(tmp_path):
    cross = AttentionRecord(
        torch.full((1, 2, 2, 3), 1 / 3), tokens_of(0, None), tokens_of(4, None, 6), part="cross"
    )
    assert AttentionRecord.load(cross.save(tmp_path / "a")) == cross
    assert cross.key_labels == AttentionRecord.load(tmp_path / "a").key_labels


def test_the_file_is_safetensors_with_a_readable_header(tmp_path):
    path = make().save(tmp_path / "r.safetensors")
    with safe_open(path, framework="np") as file:
        assert set(file.keys()) == {"pattern", "z", "query", "key"}
        header = file.metadata()
        assert np.array_equal(file.get_tensor("pattern"), make().pattern.numpy())
    assert header["format"] == record_file.FORMAT
    described = json.loads(header["record"])
    assert described == make().describe() and described["shape"] == [2, 3, 5, 5]


def test_views_and_parts_of_larger_tensors_are_saved_as_they_look(tmp_path):
    wide = torch.rand(LAYERS, HEADS, TOKENS, 2 * TOKENS)
    pattern = (wide[..., ::2]).softmax(-1).transpose(-1, -2)
    pattern = pattern / pattern.sum(-1, keepdim=True)
    assert not pattern.is_contiguous()
    record = make(pattern=pattern)
    assert AttentionRecord.load(record.save(tmp_path / "r")) == record


def test_no_such_file(tmp_path):
    with pytest.raises(RecordError, match="No record file"):
        AttentionRecord.load(tmp_path / "missing")
    with pytest.raises(RecordError, match="No record file"):
        AttentionRecord.load(tmp_path)


@pytest.mark.parametrize("cut", [0, 4, 100, -1])
def test_a_damaged_file(tmp_path, cut):
    path = make().save(tmp_path / "r.safetensors")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(RecordError, match="cannot be read as a record"):
        AttentionRecord.load(path)


class Bomb:
    """Pickled, it makes a file called `ran` when it is read."""

    def __init__(self, folder: Path) -> None:
        self.marker = folder / "ran"

    def __reduce__(self):
        return (Path.touch, (self.marker,))


def test_a_renamed_pickle_is_not_run(tmp_path):
    for path, write in (("a", lambda f: pickle.dump(Bomb(tmp_path), f)),
                        ("b", lambda f: torch.save(Bomb(tmp_path), f))):  # fmt: skip
        with (tmp_path / path).open("wb") as file:
            write(file)
        with pytest.raises(RecordError, match="cannot be read as a record"):
            AttentionRecord.load(tmp_path / path)
    assert not (tmp_path / "ran").exists()


def test_other_safetensors_are_no_records(tmp_path):
    save_file({"pattern": make().pattern}, tmp_path / "plain")
    save_file({"pattern": make().pattern}, tmp_path / "other", {"format": "pt"})
    for name in ("plain", "other"):
        with pytest.raises(RecordError, match="not a record of attention"):
            AttentionRecord.load(tmp_path / name)


def test_a_file_too_large_is_not_read(tmp_path, monkeypatch):
    path = make().save(tmp_path / "r")
    monkeypatch.setattr(record_file, "MAX_FILE_BYTES", 1000)
    with pytest.raises(RecordError, match="larger than"):
        AttentionRecord.load(path)


def forged(path: Path, tensors: dict | None = None, drop: str = "", **changes) -> Path:
    """A file as `save` writes it, with something else in its header or its tensors."""
    record = make()
    kept = {"pattern": record.pattern, "z": record.z} | (tensors or {})
    description = record.describe() | changes
    description.pop(drop, None)
    save_file(kept, path, {"format": record_file.FORMAT, "record": json.dumps(description)})
    return path


@pytest.mark.parametrize(
    "changes",
    [dict(drop="tokens"), dict(drop="notes"), dict(tokens=[]), dict(tokens="abcde"),
     dict(tokens=[["a"]] * 5), dict(tokens=[[7, 7, None, None, None, False, 0]] * 5),
     dict(tokens=[["a", "7", None, None, None, False, 0]] * 5),
     dict(tokens=[["a", 7, "0", None, None, False, 0]] * 5),
     dict(tokens=[["a", 7, None, None, None, 1, 0]] * 5),
     dict(tokens=[["\ud800", 7, None, None, None, False, 0]] * 5),
     dict(text=7), dict(text=None), dict(text_pair=["x"]), dict(causal="yes"), dict(model={}),
     dict(scale=["x", "y"]), dict(scale=[1.0]), dict(notes="cut"), dict(notes=[7]),
     dict(tensors={"pattern": torch.full((LAYERS, HEADS, TOKENS, TOKENS), 0.5)}),
     dict(tensors={"pattern": torch.zeros(LAYERS, HEADS, TOKENS, TOKENS, dtype=torch.int64)}),
     dict(tensors={"z": torch.zeros(LAYERS)}),
     dict(tensors={"z": torch.zeros(LAYERS, HEADS, TOKENS, D_HEAD, dtype=torch.int64)}),
     dict(tensors={"removed": torch.full((LAYERS, HEADS, TOKENS), 7.0)})],
    ids=lambda changes: str(changes)[:60],
)  # fmt: skip
def test_a_forged_file_is_refused(tmp_path, changes, as_users_have_it):
    assert AttentionRecord.load(forged(tmp_path / "good")).labels == make().labels
    with pytest.raises(RecordError):
        AttentionRecord.load(forged(tmp_path / "bad", **changes))


@pytest.mark.parametrize("header", ["", "[]", "7", "{", "[" * 100_000, "null", "NaN"])
def test_a_header_that_is_no_description(tmp_path, header):
    save_file(
        {"pattern": make().pattern},
        tmp_path / "r",
        {"format": record_file.FORMAT, "record": header},
    )
    with pytest.raises(RecordError, match="cannot be read as a record"):
        AttentionRecord.load(tmp_path / "r")


def test_a_file_without_a_pattern(tmp_path):
    save_file({"z": make().z}, tmp_path / "r", {"format": record_file.FORMAT, "record": "{}"})
    with pytest.raises(RecordError, match="holds no pattern"):
        AttentionRecord.load(tmp_path / "r")


def test_a_header_that_claims_more_than_the_file_holds(tmp_path):
    claim = {"pattern": {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}}
    text = json.dumps(claim).encode()
    (tmp_path / "r").write_bytes(struct.pack("<Q", len(text)) + text)
    with pytest.raises(RecordError, match="cannot be read as a record"):
        AttentionRecord.load(tmp_path / "r")
