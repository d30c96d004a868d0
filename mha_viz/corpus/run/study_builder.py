"""A study made, or continued: shard after shard into its file, then the summaries."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mha_viz.corpus.measure.batches import pass_tokens, prepared
from mha_viz.corpus.measure.shard import Settings, Shard, measure_batches
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.devices import Devices, machines_of
from mha_viz.corpus.run.progress import Progress, ProgressCounter
from mha_viz.corpus.run.summary import has_exact_quantiles, summarise
from mha_viz.corpus.run.worker import Task, random_weights
from mha_viz.corpus.sources.source import Source, open_source, shards
from mha_viz.corpus.statistics.totals import Totals
from mha_viz.corpus.store.database import Database, trust
from mha_viz.corpus.store.lock import locked
from mha_viz.corpus.store.manifest import model_identity, versions
from mha_viz.corpus.store.schema import ROWS
from mha_viz.corpus.store.study_file import (
    FILE,
    MAX_SKIPPED_NAMED,
    SHARDS_AT_ONCE,
    StudyFile,
    begun_threads,
    check_same,
    claim_folder,
    open_study,
    size_of,
)
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import StudyError
from mha_viz.text.cleaning import visible

if TYPE_CHECKING:
    from mha_viz.corpus.run.cluster import Cluster

_OPTIONAL = ("more", "jensen_shannon")  # settings that are left out where they change nothing
_MAX_COUNTED_BYTES = 64 * 2**20  # of a source that is read once more, to count its texts


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

    The work is cut into parts of 256 texts, each written in one transaction. Stopped at any moment,
    by Ctrl-C or by force, the same call goes on after the last part that was written, and the
    tables are the same to the last bit as without the interruption. A finished study is opened.

    Args:
        model: any model; of an encoder-decoder, its encoder.
        source: a file of texts (text, JSON, JSON lines, CSV, Parquet, CoNLL-U, CoNLL-2012, each
            also gzipped), a folder of them, "-" for standard input, "sample" for the treebank that
            comes with mha-viz, strings, or a dataset of Hugging Face: the object, the folder that
            its `save_to_disk` wrote, or its name as "hf:OWNER/NAME:SPLIT" (extra `datasets`).
        out: the study's folder: new, empty, or that of this study. All of it lies in one file
            there, `study.duckdb`.
        column: of a table that holds the texts, if it is not found by itself.
        sample: how many texts to draw from the source; all of them if not given.
        seed: of the draw.
        batch_tokens: how many tokens, padding included, run at once.
        on_progress: called at the beginning and after each batch; raise in it to stop.
        keep_texts: whether to keep the texts, a row for each text and head, and who looks at what.
            Without, a study of any length takes the same space: it has all means, intervals and
            labels, quantiles from its histograms, and no examples, search or single texts.
        cluster: None for this machine; "auto" or "HOST:PORT" of a Ray cluster's head for several
            ones (extra `cluster`), which hand over what they measured to this one. `out` is then a
            folder of this machine, or an address such as "s3://bucket/study". The study is the
            same to the last bit.
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
    ...     study = mv.study(mv.load("tiny-bert"), ["The cat sat.", "It slept."], out=folder)
    ...     study.n_texts, len(study.heads.query("metric == 'entropy'"))
    (2, 32)
    """
    machines = machines_of(cluster, devices, out)
    folder = Path(out) if machines is None else machines.folder
    settings = Settings(
        batch_tokens=batch_tokens,
        edges=keep_texts,
        keep_texts=keep_texts,
        join=join,
        jensen_shannon=jensen_shannon,
    )
    joins = model.layer_reader if join else None
    opened = open_source(source, column=column, sample=sample, seed=seed, join=joins, group=group)
    if join:
        opened.check_documents()
    identity = opened.identity()
    n_total = _count(opened, identity, sample)
    with nullcontext() if machines is None else machines.connected():
        claim_folder(folder)
        with locked(folder):
            settings = replace(settings, threads=begun_threads(folder) or settings.threads)
            stored = {key: of for key, of in asdict(settings).items() if key not in _OPTIONAL or of}
            about: dict[str, Any] = {
                "model": model_identity(model),
                "source": identity,
                "settings": stored,  # older studies say nothing of those in `_OPTIONAL`
                "versions": versions(),
                "unit": None,  # as is known at the end
                "source_name": opened.name,
            }
            if (folder / FILE).exists():
                check_same(folder, Database(folder).manifest, about)
            else:
                counter = ProgressCounter(n_total, _bytes(identity), on_progress)
                with open_study(folder, about) as file:
                    builder = _StudyBuilder(model, opened, settings, file, counter, machines)
                    builder.fill()
                    builder.finish()
                trust(folder / FILE)
                if machines is not None:
                    machines.publish()
    finished = Study.load(folder)
    if machines is not None:
        machines.keep_for(finished)
    return finished


def _bytes(identity: dict[str, Any]) -> int:
    return sum(file["size"] for file in identity["files"])


def _count(opened: Source, identity: dict[str, Any], sample: int | None) -> int | None:
    """Count the texts, where that is quickly known; raises where there is none."""
    if _bytes(identity) <= _MAX_COUNTED_BYTES:
        return sum(1 for _ in opened)
    if sample is None:
        next(iter(opened))
    return sample


@dataclass(frozen=True)
class _StudyBuilder:
    """A study while it is measured and written."""

    model: AttentionModel
    source: Source
    settings: Settings
    file: StudyFile
    counter: ProgressCounter
    machines: Cluster | Devices | None  # that measure; None: this process does

    def fill(self) -> None:
        """Measure and write every shard that is not there yet."""
        if self.file.n_shards:
            self.counter.complete(self.file.counts, old=True)
            self._settle()  # it may have been stopped just before
        measured = self._measured()
        # the thread that reads ahead, and processes, end with this, however it ends
        with self.settings.in_threads(), closing(measured), self._writing() as write:
            self.counter.within(0, 0)  # how many there are, before the first batch is done
            for shard in measured:
                write(shard)
                self.counter.complete(shard.counts)

    def _measured(self) -> Generator[Shard]:
        """Measure the shards that are missing, one after the other; machines do, if there are."""
        if self.machines is not None:
            done = self.file.n_shards
            tasks = (Task(n, items) for n, items in shards(self.source) if n >= done)
            with closing(self.machines.fill(self.model, self.settings, tasks)) as measured:
                yield from measured
            return
        untrained: AttentionModel | None = None
        upcoming = prepared(
            shards(self.source),
            self.model.layer_reader,
            self.settings.batch_tokens,
            self._is_done,
            pass_tokens(self.model.device),
        )
        with closing(upcoming):
            for number, packed, skipped in upcoming:
                if self._is_done(number):
                    continue
                if untrained is None and self.settings.baselines:
                    untrained = random_weights(self.model)
                yield measure_batches(
                    self.model,
                    packed,
                    skipped,
                    self.settings,
                    untrained=untrained,
                    on_batch=self.counter.within,
                )

    @contextmanager
    def _writing(self) -> Iterator[Callable[[Shard | None], None]]:
        """Yield what writes a shard in a thread, while the next one is measured.

        It waits for the shard before; with None it only waits. Whatever happens meanwhile, a shard
        that was given to it is written whole.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="writing") as thread:
            begun: list[Future[None]] = []

            def write(shard: Shard | None) -> None:
                while begun:
                    begun.pop().result()
                if shard is not None:
                    begun.append(thread.submit(self._write, shard))

            yield write
            write(None)

    def _write(self, shard: Shard) -> None:
        self.file.add(shard.tables, shard.counts, shard.skipped)
        self._settle()

    def _settle(self) -> None:
        """Keep the sums of rows that do not stay, after some shards, and end the file's log."""
        if self.file.n_shards % SHARDS_AT_ONCE == 0:
            if not self.settings.keep_texts:
                self._totals().write(self.file)
            self.file.checkpoint()
            if self.settings.keep_texts:
                self.counter.note_space(size_of(self.file.folder), self.file.mean_length)
            if self.machines is not None:
                self.machines.publish(now=False)

    def _totals(self) -> Totals:
        return Totals.of(self.file, self.model.n_layers, self.model.n_heads)

    def _is_done(self, number: int) -> bool:
        return number < self.file.n_shards

    def finish(self) -> None:
        """Write the summaries, and mark the study as finished."""
        file, opened = self.file, self.source
        counts = {"n_shards": file.n_shards, **file.counts}
        counts["n_skipped"] += opened.n_skipped
        counts |= {"n_duplicates": opened.n_duplicates, "n_units": opened.n_units}
        if self.settings.join:
            counts |= {"n_going_on": opened.n_going_on, "n_lost": opened.n_lost}
        skipped = [*map(list, opened.skipped), *file.skipped]
        if counts["n_texts"] == 0:
            location, reason = skipped[0]
            raise StudyError(
                f"The model could read none of the texts of {opened.name}; the first was "
                f"{location}: {reason} Give other texts or another model."
            )
        totals = self._totals()
        about: dict[str, Any] = {"unit": visible(opened.unit), "counts": counts}
        about["skipped"] = skipped[:MAX_SKIPPED_NAMED]
        about["quantiles"] = "texts" if has_exact_quantiles(file, totals) else "histogram"
        summarise(file, totals)
        if not self.settings.keep_texts:
            with file.transaction():
                file.drop(ROWS)
        file.finish(about)
