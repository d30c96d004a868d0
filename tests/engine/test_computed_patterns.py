"""Records of long texts: weights that are computed when asked for equal those that a run stores."""

from dataclasses import replace

import pytest
import torch

import mha_viz as mv
from mha_viz.core import measure as module_of_measures
from mha_viz.core.attention import scoring
from mha_viz.core.measure import measure
from mha_viz.core.record import patterns
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.patterns import ComputedPatterns, StoredPatterns
from mha_viz.core.record.visible import visible_tiles
from mha_viz.engine import loaded_network, recording
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.probe import KEEPABLE
from mha_viz.errors import NotKeptError, RecordError
from mha_viz.reports.report import report
from tests.core.records import visible_everywhere
from tests.engine.test_families import FALLBACK, LONG, PAIRED, SHORT, SINGLE, build, families
from tests.making.comparing import close

EXACT = 1e-6
NAMES = [name for name in SINGLE if name not in FALLBACK]


def both(monkeypatch, model, text, text_pair=None, **options):
    """The same text's records, of stored and of computed weights, by part."""
    stored = model.trace_parts(text, text_pair, **options)
    with monkeypatch.context() as changed:
        changed.setattr(loaded_network, "STORED_BYTES", 0)
        changed.setattr(scoring, "BLOCK_BYTES", 4 * model.n_heads * len(LONG.split()) * 3)
        computed = model.trace_parts(text, text_pair, **options)
    for part in stored:
        assert isinstance(stored[part].patterns, StoredPatterns)
        assert isinstance(computed[part].patterns, ComputedPatterns)
    return [(stored[part], computed[part]) for part in stored]


@pytest.mark.parametrize("name", families([*NAMES, *PAIRED]))
def test_computed_weights_equal_stored_ones(monkeypatch, name):
    model = build({**SINGLE, **PAIRED}[name], name)
    for own, made in both(monkeypatch, model, LONG, SHORT if name in PAIRED else None, keep="all"):
        close(made.pattern, own.pattern, EXACT, EXACT)
        assert own.pattern.std() > 0.01  # uniform attention would agree with anything
        for kept in KEEPABLE[1:]:
            close(getattr(made, kept), getattr(own, kept))
        assert torch.equal(visible_everywhere(made), visible_everywhere(own))
        assert (own.sink is None) == (made.sink is None) == (name != "gpt_oss")
        if own.sink is not None:
            close(made.sink, own.sink, EXACT)
        assert made.shape == own.shape and made.labels == own.labels


@pytest.mark.parametrize("key", ["hellinger", "jensen_shannon"])
@pytest.mark.parametrize("name", ["bert", "llama", "gpt_oss"])
def test_heads_are_compared_some_rows_at_a_time(monkeypatch, name, key):
    model = build(SINGLE[name], name)
    ((own, made),) = both(monkeypatch, model, LONG, keep=("pattern",))
    monkeypatch.setattr(module_of_measures, "STORED_BYTES", 0)
    monkeypatch.setattr(module_of_measures, "_AT_ONCE", 1)
    monkeypatch.setattr(ComputedPatterns, "all", lambda self: pytest.fail("all at once"))
    close(mv.head_similarity(made, key), mv.head_similarity(own, key), EXACT)


@pytest.mark.parametrize("name", ["bert", "llama", "gemma2", "gpt_oss", "t5"])
def test_every_part_of_the_weights_is_that_part_of_all(monkeypatch, name):
    model = build({**SINGLE, **PAIRED}[name], name)
    for own, made in both(monkeypatch, model, LONG, SHORT if name in PAIRED else None):
        _, heads, queries, _ = own.shape
        for record in (own, made):
            for layer, head in ((0, 1), (-1, heads - 1)):
                close(record[layer, head], own.pattern[layer, head], EXACT)
                rows = record.rows(layer, head, [queries - 1, 0])
                close(rows, own.pattern[layer, head][[queries - 1, 0]], EXACT)
                close(record.patterns.layer(layer % own.n_layers), own.pattern[layer], EXACT)
                region = record.region(layer, head, slice(1, 4), slice(None, None, 2))
                close(region, own.pattern[layer, head, 1:4, ::2], EXACT)
            for place in (0, -1):
                close(record.from_token(place), own.pattern[:, :, place], EXACT)
                close(record.to_token(place), own.pattern[..., place], EXACT)
            for side in (1, 3, 5, 7, 200):
                for pool in ("max", "sum"):
                    close(record.tiles(side, pool), pooled(own.pattern, side, pool))
                seen = pooled(visible_everywhere(own)[:, None].float(), side, "max")[:, 0] > 0
                assert torch.equal(visible_tiles(record, side), seen)


def pooled(weights, side, pool):
    """Cells of equal size by plain loops."""
    cell = -(-max(weights.shape[2:]) // side)
    rows, columns = (range(0, n, cell) for n in weights.shape[2:])
    of_cells = [
        [getattr(weights[..., q : q + cell, k : k + cell], pool)(-1)[0].max(-1)[0]
         if pool == "max"
         else weights[..., q : q + cell, k : k + cell].sum((-2, -1)) for k in columns]
        for q in rows
    ]  # fmt: skip
    return torch.stack([torch.stack(row, -1) for row in of_cells], -2)


def in_words(record, queries, keys):
    """The record, with so many tokens in each word of an axis."""
    axes = (record.tokens, queries), (record.key_tokens, keys)
    words = [tuple(replace(t, word=i // n) for i, t in enumerate(axis)) for axis, n in axes]
    return replace(record, tokens=words[0], key_tokens=words[1])


VIEWS = (
    AttentionRecord.merge_words,
    AttentionRecord.without_first,
    lambda one: one.without_first(renormalize=False),
    lambda one: one.without_first().merge_words(),
    lambda one: one.merge_words().without_first(),
)


@pytest.mark.parametrize("name", ["bert", "mistral", "gpt_oss", "t5"])
def test_views_of_computed_records_equal_those_of_stored_ones(monkeypatch, name):
    model = build({**SINGLE, **PAIRED}[name], name)
    for own, made in both(monkeypatch, model, LONG, SHORT if name in PAIRED else None):
        own, made = in_words(own, 3, 2), in_words(made, 3, 2)
        for view in VIEWS:
            expected, found = view(own), view(made)
            close(found.pattern, expected.pattern, EXACT)
            close(found.tiles(3), expected.tiles(3), EXACT)
            close(found.z, expected.z)
            for field in ("removed", "sink"):
                there = getattr(expected, field)
                assert (there is None) == (getattr(found, field) is None)
                if there is not None:
                    close(getattr(found, field), there, EXACT)
            assert torch.equal(visible_everywhere(found), visible_everywhere(expected))


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "gpt_oss", "t5"])
def test_computed_records_come_back_from_their_files(monkeypatch, tmp_path, name):
    model = build({**SINGLE, **PAIRED}[name], name)
    for own, made in both(monkeypatch, model, LONG, SHORT if name in PAIRED else None, keep="all"):
        back = AttentionRecord.load(made.save(tmp_path / "record"))
        assert isinstance(back.patterns, ComputedPatterns)
        assert back == made and back != own
        close(back.pattern, own.pattern, EXACT)
        merged = made.without_first().save(tmp_path / "merged")
        close(AttentionRecord.load(merged).pattern, own.without_first().pattern, EXACT)


def test_a_damaged_file_of_a_computed_record_is_refused(monkeypatch, tmp_path):
    model = build(SINGLE["gemma2"], "gemma2")
    ((_, made),) = both(monkeypatch, model, LONG)
    path = made.save(tmp_path / "record")
    text = path.read_bytes()
    for before, after in (
        (b'\\"after\\": 0', b'\\"after\\":-1'),
        (b'\\"softcap\\": 5', b'\\"softcap\\": x'),
        (b'"key.1"', b'"key.7"'),
    ):
        assert before in text
        path.write_bytes(text.replace(before, after))
        with pytest.raises(RecordError):
            AttentionRecord.load(path)
    model = build(SINGLE["gpt2"], "gpt2")
    ((_, made),) = both(monkeypatch, model, LONG)
    made.patterns.query[1][0, 2, 3] = torch.nan
    with pytest.raises(RecordError, match="finite"):
        replace(made, text="another")


def test_all_weights_of_a_long_text_are_refused_with_the_ways_to_a_part(monkeypatch):
    model = build(SINGLE["gpt2"], "gpt2")
    ((own, made),) = both(monkeypatch, model, LONG)
    monkeypatch.setattr(patterns, "MOST_BYTES", own.pattern.nbytes - 1)
    with pytest.raises(NotKeptError, match=r"record.rows.*record.from_token.*record.tiles"):
        _ = made.pattern
    close(made[1, 2], own[1, 2], EXACT)


def test_a_batch_of_long_texts_gives_what_each_gives_alone(monkeypatch):
    model = build(SINGLE["bert"], "bert")
    expected = model.trace_batch([SHORT, LONG])
    monkeypatch.setattr(loaded_network, "STORED_BYTES", 0)
    for found, own in zip(model.trace_batch([SHORT, LONG]), expected, strict=True):
        close(found.pattern, own.pattern)
        close(found.z, own.z)


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt_oss", "bert"])
@pytest.mark.parametrize("how", ["zero", "scale", "uniform", "patch_z", "patch_pattern"])
def test_heads_that_are_changed_are_changed_in_long_texts(monkeypatch, name, how):
    model = build(SINGLE[name], name)
    other = " ".join(reversed(LONG.split()))
    options = {"scale": {"factor": -2.0}, "patch_z": {"source": other}}.get(how, {})
    if how == "patch_pattern":
        options = {"source": model.trace(other)}
    change = Intervention([(0, 1), (1, 0), (1, 3)], how, **options)
    keep = ("pattern", "z", "value", "tiles", "metrics")
    own = model.trace(LONG, intervention=change, keep=keep)
    with monkeypatch.context() as changed:
        changed.setattr(loaded_network, "STORED_BYTES", 0)
        made = model.trace(LONG, intervention=change, keep=keep)
    assert not isinstance(made.patterns, StoredPatterns)
    close(made.pattern, own.pattern)
    close(made[1, 3], own.pattern[1, 3])
    close(made.patterns.full_rows(1, slice(2, 5), [3, 2]), own.pattern[1, [3, 2], 2:5])
    close(made.tiles(3), own.tiles(3))
    close(made.z, own.z)
    assert (made.sink is None) == (own.sink is None)
    if own.sink is not None:
        close(made.sink, own.sink)
    assert torch.equal(visible_everywhere(made), visible_everywhere(own))
    for key, values in measure(own).items():
        close(measure(made)[key], values)


def test_bfloat16_models_give_their_weights_to_rounding(monkeypatch):
    model = build(SINGLE["llama"], "llama")
    model = mv.AttentionModel(model.network.bfloat16(), model.tokenizer, name="half")
    ((own, made),) = both(monkeypatch, model, LONG, keep=("pattern", "query"))
    shared = model.n_heads // model.n_kv_heads
    for i, layer in enumerate(made.patterns.scoring):
        query, key = made.patterns.query[i], made.patterns.key[i].repeat_interleave(shared, 0)
        assert query.dtype == torch.bfloat16
        scores = layer.scale * query.double() @ key.double().mT
        future = torch.ones_like(scores, dtype=torch.bool).triu(1)
        exact = scores.masked_fill(future, -torch.inf).softmax(-1)
        close(made.pattern[i].double(), exact, 1e-5)
        if not i:  # later layers of the two runs see what each has rounded
            unit = torch.finfo(torch.bfloat16).eps / 2
            change = 2 * unit * scores.abs().amax(-1, keepdim=True)  # of any difference of scores
            off = (own.pattern[i] - exact).abs()
            assert (off <= 1.1 * exact * ((1 - exact) * change + unit)).all()


def test_a_layers_sight_is_kept_as_a_rule(monkeypatch):
    model = build(SINGLE["mistral"], "mistral")
    ((_, made),) = both(monkeypatch, model, LONG)
    for one in made.patterns.scoring:
        assert (one.sight.before, one.sight.after, one.sight.mask, one.bias) == (4, 0, None, None)


@pytest.mark.parametrize("name", families(NAMES))
def test_what_the_pass_makes_is_what_is_made_of_the_record(monkeypatch, name):
    model = build(SINGLE[name], name)
    keep = ("pattern", "z", "tiles", "metrics")
    monkeypatch.setattr(recording, "TILES", 5)
    ((own, made),) = both(monkeypatch, model, LONG, keep=keep)
    assert list(made.patterns.pooled) == [(5, "max")] and len(made.patterns.measured) == 1
    close(made.tiles(5), own.tiles(5), EXACT)
    expected, found = measure(own), measure(made)
    assert list(found) == list(expected) and len(made.patterns.measured) == 1
    for key, values in expected.items():
        close(found[key], values)


@pytest.mark.parametrize("name", ["bert", "mistral", "gpt_oss"])
def test_the_report_of_a_long_text_has_the_numbers_of_a_stored_one(monkeypatch, name):
    model = build(SINGLE[name], name)
    ((own, made),) = both(monkeypatch, model, LONG, keep=("pattern", "z", "value"))
    own, made = in_words(own, 2, 2), in_words(made, 2, 2)
    for view in (lambda one: one, *VIEWS):
        expected = report(view(own))
        other = expected.table(view(own))
        with pytest.MonkeyPatch.context() as long:
            long.setattr(module_of_measures, "STORED_BYTES", 0)
            long.setattr(patterns, "MOST_BYTES", 0)  # nothing asks for all weights
            found = report(view(made))
            table = found.table(view(made))
        assert list(table.columns) == list(other.columns)
        assert table["twin"].tolist() == other["twin"].tolist()
        assert table["labels"].tolist() == other["labels"].tolist()
        assert found.withheld == expected.withheld and found.notes == expected.notes
        for column in table.select_dtypes("number"):
            close(table[column].to_numpy(float), other[column].to_numpy(float))


def test_a_text_runs_to_the_end_of_the_models_context(monkeypatch):
    model = build(SINGLE["gpt2"], "gpt2")
    n_ctx = model.n_ctx
    monkeypatch.setattr(loaded_network, "STORED_BYTES", 0)
    monkeypatch.setattr(loaded_network, "MOST_BYTES", 4 * model.n_layers * model.n_heads * 10**2)
    record = model.trace("the " * 200)
    assert model.n_ctx == n_ctx == len(record.tokens) > model.n_stored == 10
    change = Intervention([(0, 1)], "uniform")
    assert len(model.trace("the " * 200, intervention=change).tokens) == n_ctx
