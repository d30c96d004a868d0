"""The atlas of a study: the study's numbers, whole without a network, and deaf to hostile texts."""

import base64
import csv
import json
import re
import zlib
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.atlas import atlas_files
from mha_viz.core.amounts import format_number
from mha_viz.core.metrics import METRICS
from mha_viz.errors import ArgumentError
from mha_viz.paper.head_sentence import head_sentence
from mha_viz.web.labels import clean, html_text
from mha_viz.web.payload import decode, unpack
from tests.making.hostile_study import HOSTILE, N_HEADS, N_LAYERS, N_TEXTS
from tests.making.tags import Tags

HEAD = (1, 2)


def data_of(page: Path) -> dict[str, Any]:
    """Return the data that a page hands to its scripts."""
    code = re.search(r'id="atlas-data">(.*?)</script>', page.read_text("utf-8"), re.S)
    assert code is not None
    return dict(json.loads(code[1]))


def shared(atlas: Path) -> dict[str, Any]:
    code = (atlas / "assets" / "shared.js").read_text("utf-8")
    return dict(json.loads(code.removeprefix("globalThis.mhaAtlas = ").rstrip(";\n")))


def test_the_first_page_has_the_means_of_the_study(study: mv.Study, atlas: Path) -> None:
    data = data_of(atlas / "index.html")
    quantities = {quantity["key"]: quantity for quantity in data["quantities"]}
    assert {"layer", "head"} < set(quantities) and set(study.heads["metric"]) <= set(quantities)
    for key, rows in study.heads.groupby("metric"):
        rows = rows.sort_values(["layer", "head"])
        for name, column in (("values", "mean"), ("low", "low"), ("high", "high")):
            expected = [None if np.isnan(value) else value for value in rows[column]]
            assert quantities[key][name] == pytest.approx(expected, rel=1e-6), (key, name)
    lines = (atlas / "heads.csv").read_text("utf-8").splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert [float(row["Mean"]) for row in rows] == pytest.approx(study.heads["mean"].tolist())
    untrained = study.sql("SELECT mean FROM untrained_heads WHERE metric = 'entropy' ORDER BY ALL")
    assert sorted(quantities["entropy"]["untrained"]) == pytest.approx(untrained["mean"], rel=1e-6)
    assert quantities["layer"]["values"] == [0, 0, 0, 1, 1, 1]
    page = Tags((atlas / "index.html").read_text("utf-8"))
    for part in (study.unit_note, study.manifest["versions"]["torch"], f"{N_TEXTS} texts"):
        assert part in page.text


def test_the_page_of_a_head_has_the_numbers_of_the_study(study: mv.Study, atlas: Path) -> None:
    page = (atlas / "heads" / "L1H2.html").read_text("utf-8")
    assert f'<p class="lead">{html_text(head_sentence(study, HEAD))}</p>' in page
    for row in study.heads.query("layer == 1 and head == 2").to_dict("records"):
        low, high = format_number(row["low"]), format_number(row["high"])
        assert f"<td>{METRICS[row['metric']].title}</td>" in unescape(page)
        assert f"<td>{format_number(row['mean'])}</td><td>{low} to {high}</td>" in page
    for row in study.profile_by("kind").query("layer == 1 and head == 2").to_dict("records"):
        assert f"{row['kind']}</span>" in page and format_number(row["weight"]) in page
    shown = [int(number) for number in re.findall(r'data-text="(\d+)"', page)]
    score = next(key for key in METRICS if f"Examples by {METRICS[key].title}<" in page)
    drawn = study.deciles(*HEAD, by=score)
    assert sorted(shown) == sorted(drawn["text_id"])
    for value in drawn["value"]:
        assert f"<b>{format_number(value)}</b>" in page


def test_arcs_and_weights_are_those_of_the_model(model: Any, study: mv.Study, atlas: Path) -> None:
    texts, arcs = shared(atlas)["texts"], data_of(atlas / "heads" / "L1H2.html")["arcs"]
    text_id = next(iter(arcs))
    text = study.sql(f"SELECT text FROM sentences WHERE text_id = {text_id}")["text"][0]
    record = model.trace(text)
    assert texts[text_id]["tokens"] == [clean(token.text) for token in record.tokens]
    pattern = record.pattern[1, 2].numpy()
    for query, key, weight in arcs[text_id]:
        assert weight == pytest.approx(pattern[query, key], rel=0.01)
    assert max(weight for *_, weight in arcs[text_id]) == pytest.approx(pattern.max(), rel=0.01)
    code = re.fullmatch(
        r'mhaAtlas\.take\("\d+", "(.*)"\);\n', (atlas / "texts" / f"{text_id}.js").read_text()
    )
    assert code is not None and texts[text_id]["hasWeights"]
    header, body = unpack(zlib.decompress(base64.b64decode(code[1])))
    weights = decode(np.frombuffer(body, np.uint8)).reshape(record.pattern.shape)
    np.testing.assert_allclose(weights, record.pattern.numpy(), atol=0.005)
    scores = study.sql(f"SELECT entropy FROM texts WHERE text_id = {text_id} ORDER BY layer, head")
    assert header["facts"][METRICS["entropy"].title] == pytest.approx(scores["entropy"].tolist())


def test_the_spaces_of_a_head_are_those_of_the_library(
    model: Any, study: mv.Study, atlas: Path
) -> None:
    sample, spaces = shared(atlas)["sample"], data_of(atlas / "heads" / "L1H2.html")["spaces"]
    expected = mv.head_spaces(model, list(study.sample_texts(200)), *HEAD, max_tokens=300)
    assert np.array(spaces["axes"]) == pytest.approx(
        expected.coordinates[..., :4].numpy().transpose(0, 2, 1), rel=0.01, abs=1e-3
    )
    assert spaces["received"] == pytest.approx(expected.received.tolist(), rel=0.01)
    assert len(sample["text"]) == len(sample["label"]) == len(expected.tokens)
    part = sample["colours"]["speech"]
    assert {"DET", "NOUN", "VERB"} <= set(part["names"])


def test_all_links_are_relative_and_lead_to_a_file(atlas: Path) -> None:
    pages = sorted(atlas.rglob("*.html"))
    assert len(pages) == 1 + N_LAYERS * N_HEADS
    for path in pages:
        page = Tags(path.read_text("utf-8"))
        links = [of[name] for _, of in page.seen for name in ("href", "src") if of.get(name)]
        links += re.findall(r'@import url\("(.*?)"\)', path.read_text("utf-8"))
        ids = {of["id"] for _, of in page.seen if "id" in of}
        for link in map(str, links):
            parts = urlsplit(link)
            assert not parts.scheme and not parts.netloc and not parts.path.startswith("/"), link
            assert not parts.path or (path.parent / unquote(parts.path)).is_file(), link
            assert not parts.fragment or parts.path or parts.fragment in ids, link
    files = data_of(atlas / "index.html")["files"]
    assert [(atlas / file).is_file() for file in files] == [True] * N_LAYERS * N_HEADS
    style = (atlas / "assets" / "atlas.css").read_text("utf-8")
    assert "url(" not in style and "http" not in style


def test_hostile_texts_are_shown_as_they_are(model: Any, study: mv.Study, tmp_path: Path) -> None:
    markup = '"><script>alert(1)</script>'
    manifest = json.loads(json.dumps(study.manifest))
    manifest["source_name"] = manifest["model"]["name"] = markup
    made = dict(atlas_files.atlas_files(mv.Study(study.folder, manifest), model))
    for name, content in made.items():
        text = content.decode()
        if not name.endswith(".html"):
            assert "onerror" not in text or name == "assets/shared.js"
            continue
        page = Tags(text)
        assert markup in page.text and "&lt;script&gt;alert" in text
        for tag, of in page.seen:
            assert tag not in ("img", "b") or not of
            assert not [key for key in of if key.startswith("on")]
            assert tag != "script" or "src" in of or of["type"] == "application/json"
    policy = "content=\"default-src 'none'; base-uri 'none'; form-action 'none';"
    assert policy in made["index.html"].decode()
    words = "".join(text.decode() for name, text in made.items() if name.startswith("heads/"))
    assert "<td>&lt;img/src" in words and "<td>{{7*7}}</td>" in words
    assert any(HOSTILE[0][:20] in token for text in
               json.loads(made["assets/shared.js"].decode()[22:-2])["texts"].values()
               for token in text["tokens"])  # fmt: skip


def test_texts_beyond_the_limit_have_their_arcs_alone(
    model: Any, study: mv.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atlas_files, "MAX_WEIGHT_BYTES", 7_000)
    made, calls = {}, list[tuple[int, int]]()
    for name, content in atlas_files.atlas_files(
        study, model, "distance", lambda *counts: calls.append(counts)
    ):
        made[name] = content
    weights = {name for name in made if name.startswith("texts/")}
    assert 0 < len(weights) < N_TEXTS and sum(len(made[name]) for name in weights) <= 7_000
    texts = json.loads(made["assets/shared.js"].decode()[22:-2])["texts"]
    assert {f"texts/{key}.js" for key, text in texts.items() if text["hasWeights"]} == weights
    assert "Examples by Distance<" in made["heads/L0H1.html"].decode()
    assert calls[-1][0] == calls[-1][1] and sorted(calls) == calls


def test_a_study_without_texts_has_an_atlas_of_its_sums(model: Any, tmp_path: Path) -> None:
    texts = ["the cat sat", "a mat ran on the cat", "the mat sat and ran"]
    bare = mv.study(model, texts, tmp_path / "bare", keep_texts=False)
    page = bare.atlas(tmp_path / "site", model)
    head = (page.parent / "heads" / "L0H1.html").read_text("utf-8")
    assert "keeps no single texts" in head and "data-text" not in head
    assert not (page.parent / "texts").exists()


def test_the_zip_file_has_the_files_of_the_folder(model: Any, study: mv.Study, atlas: Path) -> None:
    with ZipFile(BytesIO(atlas_files.atlas_zip(model, study.folder))) as archive:
        names = {str(path.relative_to(atlas.parent)) for path in atlas.rglob("*") if path.is_file()}
        assert set(archive.namelist()) == names and archive.testzip() is None
        shown = archive.read("atlas/heads/L1H2.html")
    assert shown == (atlas / "heads" / "L1H2.html").read_bytes()


def test_what_cannot_be_an_atlas_is_refused(model: Any, study: mv.Study, tmp_path: Path) -> None:
    before = sorted(study.folder.rglob("*"))
    with pytest.raises(ArgumentError, match="holds a study"):
        study.atlas(study.folder, model)
    assert sorted(study.folder.rglob("*")) == before
    with pytest.raises(ArgumentError, match="'charm'"):
        study.atlas(tmp_path / "site", model, by="charm")
    with pytest.raises(ArgumentError, match="weights"):
        study.atlas(tmp_path / "site", mv.load("tiny-bert"))
    assert not (tmp_path / "site").exists()
