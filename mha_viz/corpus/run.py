"""A study made, or gone on with: shard after shard into its folder, then the summaries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.corpus.address import is_address
from mha_viz.corpus.batches import prepared
from mha_viz.corpus.folding import SHARDS_AT_ONCE, fold, totals_so_far
from mha_viz.corpus.identity import model_identity, versions
from mha_viz.corpus.lock import locked
from mha_viz.corpus.shard import Settings, measure_batches
from mha_viz.corpus.source import Item, Source, open_source, shards
from mha_viz.corpus.storage import (
    KEPT_SKIPPED,
    MANIFEST,
    begin,
    claim,
    lost_shard,
    read_manifest,
    read_shard,
    shard_folder,
    write_manifest,
    write_shard,
    writing,
)
from mha_viz.corpus.study import Study
from mha_viz.corpus.summary import summarise
from mha_viz.corpus.totals import Totals
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, StudyError

if TYPE_CHECKING:
    from mha_viz.corpus.cluster import Cluster

_COUNTED_BYTES = 64 * 2**20  # of a source that is read once more, to know how many texts there are


@dataclass(frozen=True)
class Progress:
    """How far a study is.

    Args:
        n_texts: done, those of earlier runs among them.
        n_total: in the source; None where counting them would take long.
        n_tokens: done.
        texts_per_second: in this run; 0 before its first batch.
        seconds_left: None where it cannot be told.
    """

    n_texts: int
    n_total: int | None
    n_tokens: int
    texts_per_second: float
    seconds_left: float | None


class _Counter:
    """Counts what is done, and tells it."""

    def __init__(self, n_total: int | None, tell: Callable[[Progress], None] | None) -> None:
        self._n_total, self._tell = n_total, tell
        self._n_texts = self._n_tokens = self._n_old = 0  # of complete shards
        self._begun = time.monotonic()

    def complete(self, shard: Mapping[str, int], *, old: bool = False) -> None:
        """A shard that is done, skipped texts and all; `old`: by an earlier run."""
        n_texts = shard["n_texts"] + shard["n_skipped"]
        self._n_texts, self._n_tokens = self._n_texts + n_texts, self._n_tokens + shard["n_tokens"]
        self._n_old += n_texts * old
        self.within(0, 0)

    def within(self, n_texts: int, n_tokens: int) -> None:
        """How far the shard is that is being measured."""
        if self._tell is None:
            return
        done = self._n_texts + n_texts
        speed = (done - self._n_old) / max(time.monotonic() - self._begun, 1e-6)
        left = None
        if self._n_total is not None and speed > 0:
            left = max(0, self._n_total - done) / speed
        self._tell(Progress(done, self._n_total, self._n_tokens + n_tokens, speed, left))


def study(
    model: AttentionModel,
    source: str | Path | Iterable[str],
    out: str | Path,
    *,
    column: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    batch_tokens: int = 8192,
    on_progress: Callable[[Progress], None] | None = None,
    keep_texts: bool = True,
    cluster: str | None = None,
    join: str | None = None,
) -> Study:
    """Run many texts through a model, measure every head on each, and store it as a study.

    The work is cut into parts of 256 texts, each written whole. Stopped at any moment, by Ctrl-C or
    by force, the same call goes on after the last complete part, and the study is the same to the
    last bit as without the interruption. A finished study is opened.

    Args:
        model: any model; of an encoder-decoder, its encoder.
        source: a file of texts (text, JSON, JSON lines, CSV, Parquet, CoNLL-U, each also gzipped),
            a folder of them, "-" for standard input, "sample" for the treebank that comes with
            mha-viz, or strings.
        out: the study's folder: new, empty, or that of this study.
        column: of a table that holds the texts, if it is not found by itself.
        sample: how many texts to draw from the source; all of them if not given.
        seed: of the draw.
        batch_tokens: how many tokens, padding included, run at once.
        on_progress: called after each batch; raise in it to stop.
        keep_texts: whether to keep the texts, a row for each text and head, and who looks at what.
            Without, a study of any length takes the same space: it has all means, intervals and
            labels, quantiles from its histograms, and no examples, search or single texts.
        cluster: None for this machine; "auto" or "HOST:PORT" of a Ray cluster's head for several
            ones (extra `cluster`). `out` is then a folder that all of them share, or an address
            such as "s3://bucket/study". The study is the same to the last bit.
        join: "document" joins the sentences of each document of a treebank (`# newdoc` in CoNLL-U)
            to texts as long as the model takes, of 1,024 tokens at the most: antecedents may then
            stand in earlier sentences. None: each sentence is a text.

    Returns:
        The study, to be asked.

    Raises:
        StudyError: the folder holds something else, a study of something else, or a damaged one;
            another process is writing there.
        SourceError: no such source, or no text in it.
        WriteError: the folder cannot be written, or the disk is full.

    >>> import tempfile, mha_viz as mv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = mv.study(mv.load("tiny-bert"), ["The cat sat.", "It slept."], out=folder)
    ...     found.n_texts, len(found.heads.query("metric == 'entropy'"))
    (2, 32)
    """
    if batch_tokens < 1:
        raise ArgumentError(f"batch_tokens must be 1 or more, got {batch_tokens}.")
    machines = _machines(cluster, out, keep_texts)
    folder = Path(out) if machines is None else machines.folder
    settings = Settings(
        batch_tokens=batch_tokens,
        edges=keep_texts,
        keep_texts=keep_texts,
        threads=_threads(folder),
        join=join,
    )
    joins = model.reader if join else None
    opened = open_source(source, column=column, sample=sample, seed=seed, join=joins)
    if join:
        opened.check_documents()
    about = {
        "model": model_identity(model),
        "source": opened.identity(),
        "settings": asdict(settings),
        "versions": versions(),
    }
    n_total = _count(opened, about["source"], sample)
    with nullcontext() if machines is None else machines.connected():
        claim(folder)
        with locked(folder):
            manifest = begin(folder, {**about, "source_name": opened.name})
            found = _finished(folder, manifest)
            if found is None:
                counter = _Counter(n_total, on_progress)
                totals = totals_so_far(folder, model.n_layers, model.n_heads)
                if totals.n_shards:
                    counter.complete(totals.counts, old=True)
                if machines is None:
                    _fill(folder, model, opened, settings, totals, counter)
                else:
                    _fill_on(machines, model, opened, settings, totals, counter)
                _finish(folder, manifest, opened, totals)
                if machines is not None:
                    machines.publish()
    found = found or Study.load(folder)
    if machines is not None:
        machines.keep_for(found)
    return found


def _machines(cluster: str | None, out: str | Path, keep_texts: bool) -> Cluster | None:
    """What stands for the cluster, where one is asked for."""
    if cluster is None:
        if is_address(out):
            raise StudyError(
                f"{out} is an address, which takes a cluster (cluster=...): give a folder of this "
                "machine."
            )
        return None
    if is_address(out) and not keep_texts:
        raise StudyError(
            f"A study without its texts is added up where it lies, and {out} is an address: give a "
            "folder that all machines share, or keep the texts."
        )
    from mha_viz.corpus.cluster import Cluster  # Ray comes with the extra `cluster`

    return Cluster(cluster, out)


def _threads(folder: Path) -> int:
    """In how many threads a study's sums are made: those that it was begun with."""
    if (folder / MANIFEST).is_file():
        begun = read_manifest(folder)["settings"]
        if isinstance(begun, dict) and isinstance(begun.get("threads"), int):
            return int(begun["threads"])
    return torch.get_num_threads()


def _count(opened: Source, identity: dict[str, Any], sample: int | None) -> int | None:
    """How many texts there are, where that is quickly known; raises where there is none."""
    if sum(file["size"] for file in identity["files"]) <= _COUNTED_BYTES:
        return sum(1 for _ in opened)
    if sample is None:
        next(iter(opened))
    return sample


def _finished(folder: Path, manifest: dict[str, Any]) -> Study | None:
    """The study, if nothing of it is left to be made."""
    if not manifest["finished"]:
        return None
    n_shards = manifest["counts"]["n_shards"]
    return Study.load(folder) if lost_shard(folder, n_shards) is None else None


def _fill(
    folder: Path,
    model: AttentionModel,
    opened: Source,
    settings: Settings,
    totals: Totals,
    counter: _Counter,
) -> None:
    """Measure and write every shard that is not there yet."""
    untrained: AttentionModel | None = None

    def is_done(number: int) -> bool:
        return number < totals.n_shards or shard_folder(folder, number).exists()

    coming = prepared(shards(opened), model.reader, settings.batch_tokens, is_done)
    # the thread that reads ahead ends with this, however it ends
    with settings.in_threads(), closing(coming):
        for number, packed, skipped in coming:
            if number < totals.n_shards:
                continue
            if not settings.keep_texts and number % SHARDS_AT_ONCE == 0:
                fold(folder, totals, number)
            done = read_shard(folder, number)
            if done is not None:
                counter.complete(done, old=True)
                continue
            if untrained is None and settings.baselines:
                untrained = _untrained(model)
            shard = measure_batches(
                *(model, packed, skipped, settings), untrained=untrained, on_batch=counter.within
            )
            counter.complete(write_shard(folder, number, shard))


def _fill_on(
    machines: Cluster,
    model: AttentionModel,
    opened: Source,
    settings: Settings,
    totals: Totals,
    counter: _Counter,
) -> None:
    """As `_fill`, on the machines of a cluster."""
    missing = _missing(machines.folder, opened, totals, counter)
    untrained = partial(_untrained, model) if settings.baselines else lambda: None
    for shard in machines.fill(model, untrained, missing, settings):
        counter.complete(shard)


def _missing(
    folder: Path, opened: Source, totals: Totals, counter: _Counter
) -> Iterator[tuple[int, list[Item]]]:
    """The shards that are not there yet; those that are, are counted."""
    for number, items in shards(opened):
        if number < totals.n_shards:
            continue
        done = read_shard(folder, number)
        if done is None:
            yield number, items
        else:
            counter.complete(done, old=True)


def _untrained(model: AttentionModel) -> AttentionModel | None:
    """The same architecture with random weights, where its config builds it."""
    if model.backend != "mha_viz":
        return None
    try:
        return untrained_copy(model)
    except ArgumentError:
        return None  # a network that was changed in memory: the study has no such baseline


def _finish(folder: Path, manifest: dict[str, Any], opened: Source, totals: Totals) -> None:
    """Write the summaries, and say that the study is finished."""
    if manifest["settings"]["keep_texts"]:
        totals.add_shards(folder)
    else:
        fold(folder, totals)
    counts = {"n_shards": totals.n_shards, **totals.counts}
    counts["n_skipped"] += opened.n_skipped
    counts["n_duplicates"] = opened.n_duplicates
    if manifest["settings"].get("join"):
        counts |= {"n_going_on": opened.n_going_on, "n_lost": opened.n_lost}
    skipped = [*map(list, opened.skipped), *totals.skipped]
    if counts["n_texts"] == 0:
        place, reason = skipped[0]
        raise StudyError(
            f"The model could read none of the texts of {opened.name}; the first was {place}: "
            f"{reason} Give other texts or another model."
        )
    with writing(folder):
        files = summarise(folder, totals)
    write_manifest(
        folder,
        {
            **manifest,
            "finished": True,
            "counts": counts,
            "skipped": skipped[:KEPT_SKIPPED],
            "files": files,
        },
    )
