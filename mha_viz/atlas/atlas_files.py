"""The files of an atlas, and the folder that they are written to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np

from mha_viz.atlas.head_page import HeadPages
from mha_viz.atlas.index_page import heads_csv, index_page
from mha_viz.atlas.pages import ASSETS, head_file, page_assets
from mha_viz.atlas.text_weights import text_weights
from mha_viz.checkpoints.loading import load
from mha_viz.core.output_file import write_file
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.store.manifest import model_identity
from mha_viz.corpus.store.study_file import FILE
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.prediction.replay import OnProgress, Progress
from mha_viz.web.labels import clean

MAX_WEIGHT_BYTES = 40 * 2**20  # of the files with weights; further texts have their arcs alone


def write_atlas(
    study: Study,
    folder: str | Path,
    model: AttentionModel | None = None,
    by: str | None = None,
    on_progress: OnProgress | None = None,
) -> Path:
    """Write the atlas of `Study.atlas`; return its first page."""
    target = Path(folder)
    if (target / FILE).exists():
        raise ArgumentError(f"{target} holds a study: give another folder for its atlas.")
    for name, content in atlas_files(study, model, by, on_progress):
        write_file(target / name, content, parents=True)
    return target / "index.html"


def atlas_zip(
    model: AttentionModel, study_folder: Path, on_progress: OnProgress | None = None
) -> bytes:
    """Return the atlas of a finished study as a ZIP file with one folder."""
    archive = BytesIO()
    with ZipFile(archive, "w", ZIP_DEFLATED) as file:
        study = Study.load(study_folder)
        for name, content in atlas_files(study, model, on_progress=on_progress):
            file.writestr(f"atlas/{name}", content)
    return archive.getvalue()


def atlas_files(
    study: Study,
    model: AttentionModel | None = None,
    by: str | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[tuple[str, bytes]]:
    """Make the files of an atlas one after the other: their names in its folder, and their content.

    Arguments and errors are those of `Study.atlas`.
    """
    if by is not None and by not in set(study.heads["metric"]):
        raise ArgumentError(f"There is no metric {by!r} in this study.")
    model = model or load(study.manifest["model"]["name"], dtype=study.manifest["model"]["dtype"])
    if model_identity(model) | {"name": ""} != study.manifest["model"] | {"name": ""}:
        raise ArgumentError(
            f"{model.name} is not the model that this study was made of: its weights, tokens or "
            "precision differ."
        )
    pages = HeadPages(study, model, by)
    progress = Progress(on_progress, study.n_layers * study.n_heads + 1)
    n_heads_by_text: Counter[int] = Counter()
    for layer, head in np.ndindex(study.n_layers, study.n_heads):
        content, text_ids = pages.render((layer, head))
        n_heads_by_text.update(text_ids)
        yield head_file(study, (layer, head)), content
        progress.add(1)
    n_heads_by_text.update(dict.fromkeys(pages.parts.sample.get("text", ()), 1))
    often = [text_id for text_id, _ in n_heads_by_text.most_common()]
    progress.total += len(often)
    n_bytes, with_weights = 0, set()
    for text_id, content in text_weights(study, model, often):
        n_bytes += len(content)
        if n_bytes > MAX_WEIGHT_BYTES:
            break
        with_weights.add(text_id)
        yield f"texts/{text_id}.js", content
        progress.add(1)
    shared = {
        "names": pages.names,
        "files": pages.files,
        "sample": pages.parts.sample,
        "texts": _tokens(study, often, with_weights),
    }
    yield f"{ASSETS}/shared.js", f"globalThis.mhaAtlas = {json.dumps(shared)};\n".encode()
    yield from page_assets()
    yield "heads.csv", heads_csv(study)
    yield "index.html", index_page(study)
    progress.add(progress.total - progress.done)


def _tokens(study: Study, text_ids: list[int], with_weights: set[int]) -> dict[int, Any]:
    """Return the tokens of texts, and whether there is a file with their weights."""
    ids = ", ".join(map(str, text_ids)) or "NULL"
    if not study.has_texts:
        return {}
    query = f"SELECT text_id, tokens, is_special FROM sentences WHERE text_id IN ({ids})"
    return {
        int(row["text_id"]): {
            "tokens": [clean(str(token)) for token in row["tokens"]],
            "special": [int(flag) for flag in row["is_special"]],
            "hasWeights": row["text_id"] in with_weights,
        }
        for row in study.sql(query).to_dict("records")
    }
