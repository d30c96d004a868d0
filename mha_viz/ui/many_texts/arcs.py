"""Relations of gold trees with their directions, as menus and searches have them."""

from mha_viz.corpus.query.search import DIRECTIONS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import ALL


def measured(study: Study) -> list[str]:
    """Return the relations whose accuracy a study knows, `ALL` first, as "nsubj.to_head"."""
    rows = study.sql(
        "SELECT relation, direction FROM relations GROUP BY ALL HAVING count(DISTINCT half) = 2"
    )
    pairs = sorted(rows.itertuples(index=False), key=lambda pair: (pair[0] != ALL, *pair))
    return [".".join(pair) for pair in pairs]


def present(study: Study) -> list[str]:
    """Return the relations between any two tokens of a study, and shared prefixes."""
    relations = set(study.sql("SELECT DISTINCT relation FROM arcs")["relation"])
    every = relations | {relation.partition(":")[0] for relation in relations}
    return [f"{relation}.{way}" for relation in sorted(every) for way in DIRECTIONS]
