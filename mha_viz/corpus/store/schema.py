"""Tables of a study's file: names, columns, types, and a check that a file holds these alone."""

import re
from collections.abc import Sequence

import duckdb

from mha_viz.errors import StudyError

# name column:TYPE ...; `*` stands for further columns of that type: metrics, or counts by unit.
_TABLES = """
manifest content:VARCHAR
shards shard:BIGINT *:BIGINT
skipped place:VARCHAR reason:VARCHAR
sentences text_id:BIGINT unit:BIGINT place:VARCHAR text:VARCHAR n_left_out:INTEGER
    tokens:VARCHAR[] is_special:BOOLEAN[] starts:INTEGER[] ends:INTEGER[]
texts text_id:BIGINT n_tokens:INTEGER layer:SMALLINT head:SMALLINT *:FLOAT
untrained text_id:BIGINT layer:SMALLINT head:SMALLINT *:FLOAT
chance text_id:BIGINT layer:SMALLINT *:FLOAT
words text_id:BIGINT word:INTEGER form:VARCHAR lemma:VARCHAR upos:VARCHAR head:INTEGER
    relation:VARCHAR start:INTEGER stop:INTEGER tokens:INTEGER[]
arcs text_id:BIGINT dependent_token:INTEGER head_token:INTEGER relation:VARCHAR
    dependent_upos:VARCHAR head_upos:VARCHAR
parses text_id:BIGINT half:VARCHAR layer:SMALLINT head:SMALLINT unit:INTEGER n_arcs:INTEGER
    hits:INTEGER branching_hits:INTEGER
untrained_parses text_id:BIGINT half:VARCHAR layer:SMALLINT head:SMALLINT unit:INTEGER
    n_arcs:INTEGER hits:INTEGER branching_hits:INTEGER
edge_rows text_id:BIGINT layer:SMALLINT head:SMALLINT query:INTEGER key:INTEGER
    query_token:INTEGER key_token:INTEGER weight:FLOAT strongest:BOOLEAN query_upos:INTEGER
    key_upos:INTEGER arc:INTEGER
names kind:VARCHAR number:INTEGER name:VARCHAR
profile layer:SMALLINT head:SMALLINT axis:VARCHAR at:VARCHAR weight:DOUBLE rows:BIGINT
pairs measure:VARCHAR i:INTEGER j:INTEGER n:BIGINT sum:DOUBLE sum_sq:DOUBLE
histogram metric:VARCHAR layer:SMALLINT head:SMALLINT bin:SMALLINT n:BIGINT
parts_of_speech layer:SMALLINT head:SMALLINT from_upos:VARCHAR to_upos:VARCHAR weight:DOUBLE
    expected:DOUBLE rows:BIGINT
relations half:VARCHAR relation:VARCHAR direction:VARCHAR layer:SMALLINT head:SMALLINT n:BIGINT
    hits:BIGINT *:BIGINT
untrained_relations half:VARCHAR relation:VARCHAR direction:VARCHAR layer:SMALLINT head:SMALLINT
    n:BIGINT hits:BIGINT *:BIGINT
relation_offsets half:VARCHAR relation:VARCHAR direction:VARCHAR offset:SMALLINT n:BIGINT
    hits:BIGINT *:BIGINT
trees half:VARCHAR layer:SMALLINT head:SMALLINT unit:INTEGER n_arcs:BIGINT hits:BIGINT
    branching_hits:BIGINT
untrained_trees half:VARCHAR layer:SMALLINT head:SMALLINT unit:INTEGER n_arcs:BIGINT hits:BIGINT
    branching_hits:BIGINT
coreference half:VARCHAR layer:SMALLINT head:SMALLINT unit:INTEGER n:BIGINT hits:BIGINT
    nearest_hits:BIGINT same_word_hits:BIGINT
untrained_coreference half:VARCHAR layer:SMALLINT head:SMALLINT unit:INTEGER n:BIGINT hits:BIGINT
    nearest_hits:BIGINT same_word_hits:BIGINT
means table:VARCHAR place:INTEGER column:VARCHAR n:DOUBLE mean:DOUBLE squares:DOUBLE
units unit:SMALLINT sum:DOUBLE n:INTEGER
label_counts label:VARCHAR place:INTEGER n:BIGINT
heads layer:SMALLINT head:SMALLINT metric:VARCHAR n_texts:BIGINT n_units:BIGINT mean:DOUBLE
    std:DOUBLE standard_error:DOUBLE low:DOUBLE high:DOUBLE q05:DOUBLE q25:DOUBLE q50:DOUBLE
    q75:DOUBLE q95:DOUBLE
untrained_heads layer:SMALLINT head:SMALLINT metric:VARCHAR n_texts:BIGINT n_units:BIGINT
    mean:DOUBLE std:DOUBLE standard_error:DOUBLE low:DOUBLE high:DOUBLE
chance_layers layer:SMALLINT metric:VARCHAR n_texts:BIGINT n_units:BIGINT mean:DOUBLE std:DOUBLE
    standard_error:DOUBLE low:DOUBLE high:DOUBLE
labels layer:BIGINT head:BIGINT label:VARCHAR mean:DOUBLE low:DOUBLE high:DOUBLE baseline:DOUBLE
    threshold:DOUBLE share_of_texts:DOUBLE earned:BOOLEAN
"""
_FURTHER = "*"
_NAME = re.compile(r"[A-Za-z_]\w{0,99}\Z")


def _read_tables() -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for word in _TABLES.split():
        name, _, kind = word.partition(":")
        if kind:
            tables[next(reversed(tables))][name] = kind
        else:
            tables[name] = {}
    return tables


TABLES = _read_tables()  # by table: column -> type
# Tables of sums, whose rows add up, and the columns that say what a row is about.
SUMS = {
    name: tuple(column for column, kind in columns.items() if column not in added)
    for name, added in {
        "profile": ("weight", "rows"),
        "pairs": ("n", "sum", "sum_sq"),
        "histogram": ("n",),
        "parts_of_speech": ("weight", "expected", "rows"),
        "relations": ("n", "hits", _FURTHER),
        "untrained_relations": ("n", "hits", _FURTHER),
        "relation_offsets": ("n", "hits", _FURTHER),
        "trees": ("n_arcs", "hits", "branching_hits"),
        "untrained_trees": ("n_arcs", "hits", "branching_hits"),
        "coreference": ("n", "hits", "nearest_hits", "same_word_hits"),
        "untrained_coreference": ("n", "hits", "nearest_hits", "same_word_hits"),
    }.items()
    for columns in [TABLES[name]]
}
# Rows of single texts.
ROWS = ("sentences", "texts", "untrained", "chance", "words", "arcs", "parses", "untrained_parses")
SCORES = ("texts", "untrained", "chance")  # of these, the tables whose columns are averaged
# Tables that a reader of the study does not see: how far it is, and edges as numbers.
INTERNAL = ("manifest", "shards", "skipped", "edge_rows", "names")


def column_type(table: str, column: str) -> str:
    """Return the type of a column; KeyError where no study has such a table or column."""
    columns = TABLES[table]
    if column not in columns and _NAME.match(column):
        return columns[_FURTHER]
    return columns[column]


def create_statement(table: str, columns: Sequence[str]) -> str:
    """Write the SQL that creates a table, with all of its fixed columns and these further ones."""
    fixed = [column for column in TABLES[table] if column != _FURTHER]
    every = fixed + [column for column in columns if column not in fixed]
    typed = ", ".join(f'"{column}" {column_type(table, column)}' for column in every)
    return f'CREATE TABLE "{table}" ({typed})'


def check_schema(connection: duckdb.DuckDBPyConnection, database: str) -> list[str]:
    """Return the tables of an attached file; StudyError where it holds anything but a study's.

    A view, a macro, a computed column or a default value of a stranger's file would be run by
    whoever reads it. A table passes where the statement that made it is the one that makes ours.
    """
    for objects, kind in _FORBIDDEN_OBJECTS.items():
        if connection.execute(objects, [database]).fetchall():
            raise StudyError(f"it holds {kind}")
    columns: dict[str, list[str]] = {}
    for table, column in connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = ? "
        "ORDER BY table_name, column_index",
        [database],
    ).fetchall():
        columns.setdefault(table, []).append(column)
    statements = dict(
        connection.execute(
            "SELECT table_name, sql FROM duckdb_tables() WHERE database_name = ?", [database]
        ).fetchall()
    )
    if statements.keys() != columns.keys():
        raise StudyError("its list of tables is damaged")
    with duckdb.connect(":memory:") as ours:
        for table in statements:
            try:
                ours.execute(create_statement(table, columns[table]))
            except KeyError:
                raise StudyError("it holds a table, or a column, that no study has") from None
        expected = dict(ours.execute("SELECT table_name, sql FROM duckdb_tables()").fetchall())
    if expected != statements:
        raise StudyError("a table of it is not made as a study's is")
    return sorted(statements)


_FORBIDDEN_OBJECTS = {
    "SELECT 1 FROM duckdb_views() WHERE database_name = ? AND NOT internal": "a view",
    "SELECT 1 FROM duckdb_functions() WHERE database_name = ? AND NOT internal": "a macro",
    "SELECT 1 FROM duckdb_indexes() WHERE database_name = ?": "an index",
    "SELECT 1 FROM duckdb_sequences() WHERE database_name = ?": "a sequence",
    "SELECT 1 FROM duckdb_types() WHERE database_name = ? AND NOT internal": "a type",
    "SELECT 1 FROM duckdb_constraints() WHERE database_name = ?": "a constraint",
    "SELECT 1 FROM duckdb_schemas() WHERE database_name = ? AND NOT internal "
    "AND schema_name <> 'main'": "a schema",
}
