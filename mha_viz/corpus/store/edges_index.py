"""Files of a study's edges to search: all, in order of both words, and a treebank's heaviest.

The heaviest stand along each relation and between two parts of speech; a search by grammar alone
reads these.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from mha_viz.core.cancellation import check_cancelled
from mha_viz.corpus.store import storage
from mha_viz.corpus.store.storage import SHARDS
from mha_viz.corpus.treebank.parts_of_speech import PARTS
from mha_viz.corpus.treebank.relations import TO_DEPENDENT, TO_HEAD
from mha_viz.errors import WriteError

EDGES = "edges"  # the file's name
ROWS = 20_480  # of a row group: a search reads those alone that may hold its word
_MEMORY = "128MB"  # as fast as more for a few million edges, which would fill whatever is there
_MORE_MEMORY = "1GB"  # for so many that their parts cannot be merged in that
_LAST = "layer, head, text_id, query, key"  # tells any two edges apart, so that the order is one
_BUFFERED = 500_000  # edges of all ranges that are held while they are told apart


def parquet_options() -> str:
    """Return how files of edges are written; version 2 takes less for columns of floats."""
    level = storage.ZSTD_LEVEL
    return (
        "FORMAT parquet, PARQUET_VERSION V2, COMPRESSION zstd, "
        f"COMPRESSION_LEVEL {level}, ROW_GROUP_SIZE {ROWS}"
    )


def sort_edges(folder: Path) -> None:
    """Write all edges to one file, where the study has edges, in row groups of few words each.

    `query_word` and `key_word` are the tokens in small letters, as a search compares them. Query
    words are cut into ranges of as many edges each, and those of a range are in order of their key
    words, so that row groups are like squares of a chessboard: a search for a word, on either
    side, reads about the square root of their number.
    """
    if any((folder / SHARDS).glob("*/edges.parquet")):
        on_disk(folder, lambda connection: _sort(connection, folder))


def _sort(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Sort a range at a time: all at once would take much memory, and ten times the room."""
    parts, ranges = folder / SHARDS / "*" / "edges.parquet", folder / f".{EDGES}.ranges.part"
    shutil.rmtree(ranges, ignore_errors=True)
    connection.execute(
        f"""CREATE VIEW found AS SELECT *, lower(trim(query_token)) AS query_word,
            lower(trim(key_token)) AS key_word FROM read_parquet({quoted(parts)})"""
    )
    [(n,)] = connection.execute("SELECT count(*) FROM found").fetchall()
    n_ranges = isqrt(n // ROWS) + 1
    connection.execute(
        f"""CREATE TABLE words AS SELECT query_word,
            (sum(count(*)) OVER (ORDER BY query_word) - 1) * {n_ranges} // {n} AS place
        FROM found GROUP BY query_word"""
    )
    connection.execute(f"SET partitioned_write_flush_threshold = {_BUFFERED // n_ranges}")
    connection.execute(
        f"""COPY (SELECT found.*, place FROM found JOIN words USING (query_word))
        TO {quoted(ranges)} (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (place))"""
    )
    found = sorted(ranges.iterdir(), key=lambda path: int(path.name.partition("=")[2]))
    for number, one in enumerate(found):  # there and back, so that neighbours have the same words
        check_cancelled()
        order = f"key_word {'DESC' if number % 2 else 'ASC'}, query_word, {_LAST}"
        connection.execute(
            f"""COPY (
                SELECT * EXCLUDE (place) FROM read_parquet({quoted(one / "*.parquet")})
                ORDER BY {order}
            ) TO {quoted(one.with_suffix(".parquet"))} ({parquet_options()})"""
        )
        shutil.rmtree(one)
    draft = folder / f".{EDGES}.part"
    files = ", ".join(quoted(one.with_suffix(".parquet")) for one in found)
    connection.execute(
        f"COPY (FROM read_parquet([{files}])) TO {quoted(draft)} ({parquet_options()})"
    )
    shutil.rmtree(ranges)
    draft.replace(folder / f"{EDGES}.parquet")


def on_disk(folder: Path, make: Callable[[duckdb.DuckDBPyConnection], None]) -> None:
    """Make files of a study with a database that keeps on the disk what is too much for memory.

    `make` begins once more where it needs more memory.
    """
    try:
        try:
            _with_memory(folder, make, _MEMORY)
        except duckdb.OutOfMemoryException:
            _with_memory(folder, make, _MORE_MEMORY)
    except duckdb.Error as error:  # a full disk, mostly
        raise WriteError(str(error).splitlines()[0]) from None


def _with_memory(
    folder: Path, make: Callable[[duckdb.DuckDBPyConnection], None], memory: str
) -> None:
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET threads = 1")  # the same order each time
        connection.execute(f"SET memory_limit = '{memory}'")  # what is more lies on the disk
        connection.execute("SET temp_directory = " + quoted(folder / ".sorting.part"))
        make(connection)


def quoted(path: Path) -> str:
    """Quote a path for SQL.

    >>> quoted(Path("it's"))
    "'it''s'"
    """
    return "'" + str(path).replace("'", "''") + "'"


BY_RELATION, BY_PARTS = "heaviest_by_relation", "heaviest_by_parts"  # the files' names
KEPT = 4_000  # of a group: far more than are shown, for a search may be for those of one head
HEAVIEST_FIRST = "weight DESC, text_id, layer, head, query, key"
_BATCH = 500_000  # edges that are held against their trees at once
# Two words in one token may have one relation to another.
TOKEN_ARCS = f"""SELECT DISTINCT * FROM (
    SELECT text_id, dependent_token AS query, head_token AS key, relation,
        '{TO_HEAD}' AS direction FROM arcs
    UNION ALL SELECT text_id, head_token, dependent_token, relation, '{TO_DEPENDENT}' FROM arcs
)"""
# The parts of speech of each token's words, a bit for each: numbers are joined faster than names.
_PARTS = f"""SELECT text_id, token, bit_or(1 << list_position({[*PARTS]}, upos)) AS parts
    FROM (SELECT text_id, unnest(tokens) AS token, upos FROM words WHERE upos IN {PARTS})
    GROUP BY ALL"""
_NAMES = f"""array_to_string(
    list_filter({[*PARTS]}, lambda part, place: {{parts}} >> place & 1 = 1), '+')"""
_WITH_PARTS = """SELECT found.*, coalesce(of_query.parts, 0) AS query_upos,
        coalesce(of_key.parts, 0) AS key_upos FROM found
    LEFT JOIN parts AS of_query ON of_query.text_id = found.text_id AND of_query.token = query
    LEFT JOIN parts AS of_key ON of_key.text_id = found.text_id AND of_key.token = key"""


def keep_heaviest(folder: Path) -> None:
    """Write the heaviest edges, where the study has edges and trees.

    In a group that has more than `KEPT`, `complete_above` is the least weight that is kept; all
    edges that weigh more are there. In others it is 0.
    """
    shards = sorted(path.parent for path in (folder / SHARDS).glob("*/arcs.parquet"))
    needed = [shard / f"{name}.parquet" for shard in shards for name in ("edges", "words")]
    if shards and all(path.exists() for path in needed):  # older parts lack the words
        on_disk(folder, lambda connection: _keep(connection, folder, shards))


def _keep(connection: duckdb.DuckDBPyConnection, folder: Path, shards: list[Path]) -> None:
    along = f"WITH found AS (FROM batch JOIN token_arcs USING (text_id, query, key)) {_WITH_PARTS}"
    between = f"WITH found AS (FROM batch) {_WITH_PARTS} WHERE query_upos > 0 OR key_upos > 0"
    tables = [
        _Heaviest(connection, BY_RELATION, ("relation", "direction"), along),
        _Heaviest(connection, BY_PARTS, ("query_upos", "key_upos"), between),
    ]
    for batch in _batches(connection, shards):
        check_cancelled()
        connection.register("batch", batch)
        for table in tables:
            table.add()
    for table in tables:
        table.write(folder)


def _batches(connection: duckdb.DuckDBPyConnection, shards: list[Path]) -> Iterator[pa.Table]:
    """Yield some edges at a time; the trees of their texts are then tables of the database."""
    for shard in shards:
        for name in ("arcs", "words"):
            path = quoted(shard / f"{name}.parquet")
            connection.execute(f"CREATE OR REPLACE VIEW {name} AS FROM read_parquet({path})")
        connection.execute(f"CREATE OR REPLACE TABLE token_arcs AS {TOKEN_ARCS}")
        connection.execute(f"CREATE OR REPLACE TABLE parts AS {_PARTS}")
        with pq.ParquetFile(shard / "edges.parquet") as file:
            for rows in file.iter_batches(_BATCH):
                yield pa.Table.from_batches([rows])


@dataclass
class _Heaviest:
    """The heaviest edges of each group so far."""

    # to the database with a batch of edges and the trees of their texts.
    connection: duckdb.DuckDBPyConnection
    name: str  # of the table that is made
    group: tuple[str, str]  # what is the same within one
    edges: str  # SQL for those of a batch that belong to one
    _n: int = 0  # rows of the table
    _most: int = -1  # so many are allowed before the lighter ones are dropped; not begun

    def add(self) -> None:
        """Add a batch, but for edges that are lighter than all of a full group."""
        if self._most < 0:
            self._count(f"CREATE TABLE {self.name} AS {self.edges} LIMIT 0")
            self._drop_lighter()
        same = " AND ".join(f"edge.{column} = least.{column}" for column in self.group)
        self._n += self._count(
            f"""INSERT INTO {self.name} SELECT edge.* FROM ({self.edges}) AS edge
                LEFT JOIN {self.name}_least AS least ON {same}
                WHERE weight >= coalesce(complete_above, 0)"""
        )
        if self._n > self._most:
            self._drop_lighter()

    def write(self, folder: Path) -> None:
        """Write the table, group by group, the heaviest first."""
        if self._most < 0:  # no batch: none of the texts has an edge
            return
        self._drop_lighter()
        group, draft = ", ".join(self.group), folder / f".{self.name}.part"
        parts = ", ".join(f"{_NAMES.format(parts=c)} AS {c}" for c in ("query_upos", "key_upos"))
        self._count(
            f"""COPY (
                SELECT * REPLACE ({parts}, coalesce(complete_above, 0) AS complete_above)
                FROM {self.name} LEFT JOIN {self.name}_least USING ({group})
                ORDER BY {group}, {HEAVIEST_FIRST}
            ) TO {quoted(draft)} ({parquet_options()})"""
        )
        draft.replace(folder / f"{self.name}.parquet")

    def _drop_lighter(self) -> None:
        """Drop what is no longer among the heaviest of its group."""
        group = ", ".join(self.group)
        self._n = self._count(
            f"""CREATE OR REPLACE TABLE {self.name} AS FROM {self.name} QUALIFY {KEPT} >=
                row_number() OVER (PARTITION BY {group} ORDER BY {HEAVIEST_FIRST})"""
        )
        self._count(
            f"""CREATE OR REPLACE TABLE {self.name}_least AS
                SELECT {group}, min(weight) AS complete_above FROM {self.name}
                GROUP BY ALL HAVING count(*) = {KEPT}"""
        )
        self._most = 2 * self._n + _BATCH

    def _count(self, statement: str) -> int:
        """Run a statement, and return how many rows it has written."""
        return int(self.connection.execute(statement).fetchall()[0][0])
