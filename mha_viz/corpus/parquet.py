"""The texts of a Parquet file, a few hundred rows at a time."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from io import BufferedIOBase
from itertools import count

import pyarrow as pa
from pyarrow import parquet, types

from mha_viz.corpus.reading import Passage, Skip, chosen_column
from mha_viz.errors import SourceError, translating

_ROWS = 256  # taken at a time
_BUFFER = 1 << 20  # bytes of a column that are read ahead; without a limit it is a row group's


def parquet_texts(
    stream: BufferedIOBase, name: str, column: str | None, skip: Skip
) -> Iterator[Passage]:
    """The texts of one column.

    Args:
        stream: the file. It is read from its end, so one packed by gzip is unpacked onto the disk.
        name: of it, for places and messages.
        column: that holds the texts; None finds one.
        skip: is told the place and the reason of a row without text.

    Raises:
        SourceError: no such column, or a damaged file.
    """
    with ExitStack() as files:
        files.enter_context(translating(lambda error: _damaged(name, error)))
        seekable: object = stream
        if isinstance(stream, gzip.GzipFile):
            unpacked = files.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(stream, unpacked)
            seekable = unpacked
        # Without pre_buffer: it would hold all row groups at once.
        file = parquet.ParquetFile(seekable, buffer_size=_BUFFER, pre_buffer=False)
        fields = list(file.schema_arrow)
        texts = [field.name for field in fields if _is_text(field.type)]
        column = chosen_column(name, column, [field.name for field in fields], texts)
        numbers = count(1)
        for batch in file.iter_batches(batch_size=_ROWS, columns=[column]):
            for value in batch.column(0):
                place = f"{name}:{next(numbers)}"
                try:
                    text = value.as_py()
                except UnicodeDecodeError as error:
                    skip(place, f"The text is not UTF-8 ({error.reason}).")
                    continue
                if text is None:
                    skip(place, "There is no text.")
                else:
                    yield Passage(place, text)


def _damaged(name: str, error: BaseException) -> SourceError:
    reason = str(error).strip().partition("\n")[0][:200].rstrip(".") or type(error).__name__
    return SourceError(f"{name} cannot be read as Parquet: {reason}.")


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
