"""A study made, or continued: shard after shard into its folder, then the summaries."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.corpus.measure.batches import pass_tokens, prepared
from mha_viz.corpus.measure.shard import Settings, Shard, measure_batches
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.query.verification import missing_part
from mha_viz.corpus.run.devices import Devices, machines_of
from mha_viz.corpus.run.progress import Progress, ProgressCounter
from mha_viz.corpus.run.summary import has_exact_quantiles, summarise
from mha_viz.corpus.run.worker import Task, Work
from mha_viz.corpus.sources.source import Source, open_source, shards
from mha_viz.corpus.statistics import totals as sums
from mha_viz.corpus.statistics.totals import SHARDS_AT_ONCE, Totals, fold, totals_so_far
from mha_viz.corpus.store import storage
from mha_viz.corpus.store.blocks import mend, merge_shards, parts_of, remove_shards
from mha_viz.corpus.store.integrity import FORMAT, locked
from mha_viz.corpus.store.manifest import model_identity, versions
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, StudyError
from mha_viz.text.cleaning import visible

if TYPE_CHECKING:
    from mha_viz.corpus.run.cluster import Cluster

_LATER = ("more", "jensen_shannon")  # settings that are left out where they change nothing
_COUNTED_BYTES = 64 * 2**20  # of a source that is read once more, to know how many texts there are


def study(
    model: AttentionModel,
    source: str | Path | Iterable[Any],
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
    devices: Sequence[str] | str | None = None,
    group: str | None = None,
    jensen_shannon: bool = False,
) -> Study:
    """Run many texts through a model, measure every head on each, and store it as a study.

    The work is cut into parts of 256 texts, each written whole. Stopped at any moment, by Ctrl-C or
    by force, the same call goes on after the last complete part, and the study is the same to the
    last bit as without the interruption. A finished study is opened.

    Args:
        model: any model; of an encoder-decoder, its encoder.
        source: a file of texts (text, JSON, JSON lines, CSV, Parquet, CoNLL-U, CoNLL-2012, each
            also gzipped), a folder of them, "-" for standard input, "sample" for the treebank that
            comes with mha-viz, strings, or a dataset of Hugging Face: the object, the folder that
            its `save_to_disk` wrote, or its name as "hf:OWNER/NAME:SPLIT" (extra `datasets`).
        out: the study's folder: new, empty, or that of this study.
        column: of a table that holds the texts, if it is not found by itself.
        sample: how many texts to draw from the source; all of them if not given.
        seed: of the draw.
        batch_tokens: how many tokens, padding included, run at once.
        on_progress: called at the beginning and after each batch; raise in it to stop.
        keep_texts: whether to keep the texts, a row for each text and head, and who looks at what.
            Without, a study of any length takes the same space: it has all means, intervals and
            labels, quantiles from its histograms, and no examples, search or single texts.
        cluster: None for this machine; "auto" or "HOST:PORT" of a Ray cluster's head for several
            ones (extra `cluster`). `out` is then a folder that all of them share, or an address
            such as "s3://bucket/study". The study is the same to the last bit.
        join: "document" joins the sentences of each document of a treebank (`# newdoc` in CoNLL-U)
            to texts as long as the model takes, of 1,024 tokens at the most: antecedents may then
            stand in earlier sentences. None: each sentence is a text.
        devices: None for the device that the model is on; "all" for every CUDA card of this
            machine, or several devices of one kind, such as ("cuda:0", "cuda:1"): a process on
            each holds a copy of the model and measures parts. The processor may be named more
            than once, and the study is then the same to the last bit; of cards it is as much the
            same as one card gives when it is asked twice, for it may add in another order.
            Processes are begun anew, so a script needs `if __name__ == "__main__":`.
        group: the column of a table that says which texts depend on each other, such as "author":
            intervals take them as one unit. None: those of one document of a treebank, else of one
            file of a folder, else each text by itself, as everywhere with "text".
        jensen_shannon: whether pairs of heads are compared by Jensen-Shannon divergence, too. It
            takes 0.1 to 0.5 s for a text of 128 tokens and 144 heads on a processor.

    Returns:
        The study, to be asked.

    Raises:
        StudyError: the folder holds something else, a study of something else, or a damaged one;
            another process is writing there.
        ArgumentError: an unknown device, a card that is named twice, or devices of two kinds.
        SourceError: no such source, or no text in it.
        WriteError: the folder cannot be written, or the disk is full.

    Source: that of each metric, `METRICS[key].source`; of trees and mentions Clark et al. 2019.

    >>> import tempfile, mha_viz as mv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = mv.study(mv.load("tiny-bert"), ["The cat sat.", "It slept."], out=folder)
    ...     found.n_texts, len(found.heads.query("metric == 'entropy'"))
    (2, 32)
    """
    machines = machines_of(cluster, devices, out, keep_texts)
    folder = Path(out) if machines is None else machines.folder
    settings = Settings(
        batch_tokens=batch_tokens,
        edges=keep_texts,
        keep_texts=keep_texts,
        threads=_threads(folder),
        join=join,
        jensen_shannon=jensen_shannon,
    )
    joins = model.layer_reader if join else None
    opened = open_source(source, column=column, sample=sample, seed=seed, join=joins, group=group)
    if join:
        opened.check_documents()
    about: dict[str, Any] = {
        "model": model_identity(model),
        "source": opened.identity(),
        # older studies say nothing of further metrics or measures, and have none
        "settings": {key: of for key, of in asdict(settings).items() if key not in _LATER or of},
        "versions": versions(),
        "unit": None,  # as is known at the end
    }
    n_total = _count(opened, about["source"], sample)
    with nullcontext() if machines is None else machines.connected():
        storage.claim_folder(folder)
        with locked(folder):
            manifest = storage.begin_manifest(folder, {**about, "source_name": opened.name})
            found = None  # a finished study of which nothing is missing
            if manifest["finished"] and missing_part(folder, manifest) is None:
                if "parts" in manifest:
                    remove_shards(folder)  # of a run that was stopped when it deleted them
                found = Study.load(folder)
            if found is None:
                if manifest["format"] < FORMAT:  # its parts have no sums
                    raise StudyError(
                        f"An earlier version of mha-viz began {folder}: give another folder."
                    )
                counter = ProgressCounter(n_total, on_progress)
                totals = totals_so_far(folder, model.n_layers, model.n_heads)
                if totals.n_shards:
                    counter.complete(totals.counts, old=True)
                lost = [
                    part
                    for part in parts_of(manifest) or ()
                    if not storage.part_folder(folder, part.name).exists()
                ]
                wanted = {number for part in lost for number in part.numbers} if lost else None
                run = _Run(folder, model, opened, settings, totals, counter, wanted)
                run.fill() if machines is None else run.fill_on(machines)
                for part in lost:
                    mend(folder, part)
                if not lost:
                    _finish(folder, manifest, opened, totals)
                remove_shards(folder)
                if machines is not None:
                    machines.publish()
    found = found or Study.load(folder)
    if machines is not None:
        machines.keep_for(found)
    return found


def _threads(folder: Path) -> int:
    """Return the threads in which a study's sums are made: those that it was begun with."""
    if (folder / storage.MANIFEST).is_file():
        begun = storage.read_manifest(folder)["settings"]
        if isinstance(begun, dict) and isinstance(begun.get("threads"), int):
            return int(begun["threads"])
    return torch.get_num_threads()


def _count(opened: Source, identity: dict[str, Any], sample: int | None) -> int | None:
    """Count the texts, where that is quickly known; raises where there is none."""
    if sum(file["size"] for file in identity["files"]) <= _COUNTED_BYTES:
        return sum(1 for _ in opened)
    if sample is None:
        next(iter(opened))
    return sample


@dataclass(frozen=True)
class _Run:
    """A study in the making."""

    folder: Path
    model: AttentionModel
    source: Source
    settings: Settings
    totals: Totals
    counter: ProgressCounter
    wanted: set[int] | None = None  # numbers of the shards that are to be made; None: all

    def fill(self) -> None:
        """Measure and write every shard that is not there yet."""
        untrained: AttentionModel | None = None
        upcoming = prepared(
            shards(self.source),
            self.model.layer_reader,
            self.settings.batch_tokens,
            self._is_done,
            pass_tokens(self.model.device),
        )
        # the thread that reads ahead ends with this, however it ends
        with self.settings.in_threads(), closing(upcoming), self._writing() as write:
            self.counter.within(0, 0)  # how many there are, before the first batch is done
            for number, packed, skipped in upcoming:
                if self._is_added(number):
                    continue
                if not self.settings.keep_texts and number % SHARDS_AT_ONCE == 0:
                    write(None)
                    fold(self.folder, self.totals, number)
                if self._counted(number):
                    continue
                if untrained is None and self.settings.baselines:
                    untrained = random_weights(self.model)
                shard = measure_batches(
                    self.model,
                    packed,
                    skipped,
                    self.settings,
                    untrained=untrained,
                    on_batch=self.counter.within,
                )
                write((number, shard))

    @contextmanager
    def _writing(self) -> Iterator[Callable[[tuple[int, Shard] | None], None]]:
        """Yield what writes a shard in a thread, while the next one is measured.

        It waits for the shard before; with None it only waits. Whatever happens meanwhile, a shard
        that was given to it is written whole.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="writing") as thread:
            begun: list[Future[dict[str, Any]]] = []

            def write(shard: tuple[int, Shard] | None) -> None:
                while begun:
                    begun.pop().result()
                if shard is not None:
                    keep = self.settings.keep_texts
                    begun.append(
                        thread.submit(sums.write_shard, self.folder, *shard, keep_texts=keep)
                    )
                    self.counter.complete(shard[1].counts)

            yield write
            write(None)

    def fill_on(self, machines: Cluster | Devices) -> None:
        """Measure and write the missing shards on the machines of a cluster, or on devices."""
        tasks = (
            Task(number, items)
            for number, items in shards(self.source)
            if not self._is_added(number) and not self._counted(number)
        )
        make = partial(random_weights, self.model) if self.settings.baselines else lambda: None
        # processes end with this, however it ends
        with closing(machines.fill(Work(self.model, make, tasks, self.settings))) as filled:
            for shard in filled:
                self.counter.complete(shard)

    def _is_added(self, number: int) -> bool:
        """Tell whether a shard's sums are in those of the study."""
        unwanted = self.wanted is not None and number not in self.wanted
        return number < self.totals.n_shards or unwanted

    def _is_done(self, number: int) -> bool:
        return self._is_added(number) or storage.shard_folder(self.folder, number).exists()

    def _counted(self, number: int) -> bool:
        """Count a shard that is there already."""
        done = storage.read_shard(self.folder, number)
        if done is not None:
            self.counter.complete(done, old=True)
        return done is not None


def random_weights(model: AttentionModel) -> AttentionModel | None:
    """Copy the architecture with random weights, where its config builds it."""
    if model.backend != "mha_viz":
        return None
    try:
        return untrained_copy(model)
    except ArgumentError:
        return None  # a network that was changed in memory: the study has no such baseline


def _finish(folder: Path, manifest: dict[str, Any], opened: Source, totals: Totals) -> None:
    """Write the summaries, and mark the study as finished."""
    keep_texts = manifest["settings"]["keep_texts"]
    if keep_texts:
        with storage.writing(folder):
            shutil.rmtree(folder / storage.PARTS, ignore_errors=True)  # of a run that was stopped
        totals.add_shards(folder)
    else:
        fold(folder, totals)
    counts = {"n_shards": totals.n_shards, **totals.counts}
    counts["n_skipped"] += opened.n_skipped
    counts |= {"n_duplicates": opened.n_duplicates, "n_units": opened.n_units}
    if manifest["settings"].get("join"):
        counts |= {"n_going_on": opened.n_going_on, "n_lost": opened.n_lost}
    skipped = [*map(list, opened.skipped), *totals.skipped]
    if counts["n_texts"] == 0:
        place, reason = skipped[0]
        raise StudyError(
            f"The model could read none of the texts of {opened.name}; the first was {place}: "
            f"{reason} Give other texts or another model."
        )
    with storage.writing(folder):
        files = summarise(folder, totals)
    about = {"finished": True, "unit": visible(opened.unit), "counts": counts}
    about["skipped"] = skipped[: storage.KEPT_SKIPPED]
    about["quantiles"] = "texts" if has_exact_quantiles(folder, totals) else "histogram"
    if keep_texts:
        about["parts"] = [part._asdict() for part in merge_shards(folder, totals.n_shards)]
    storage.write_manifest(folder, {**manifest, **about, "files": files})
