"""Relations of the gold trees in menus: each in both directions, as "nsubj.to_head"."""

from collections.abc import Iterable

from mha_viz.corpus.query.search import DIRECTIONS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import ALL, TO_HEAD
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Corpus
from mha_viz.ui.widgets.controls import choosing


def split(arc: str) -> tuple[str, str]:
    """Return relation and direction of a choice.

    >>> split("nsubj:pass.to_head")
    ('nsubj:pass', 'to_head')
    """
    relation, _, direction = arc.rpartition(".")
    return relation, direction


def title(arc: str) -> str:
    """Return a choice's name on screen.

    >>> title("obj.to_dependent"), title("all.to_head")
    ('obj: head looks at dependent', 'any relation: dependent looks at head')
    """
    relation, direction = split(arc)
    who = ("dependent", "head") if direction == TO_HEAD else ("head", "dependent")
    name = "any relation" if relation == ALL else relation
    return f"{name}: {who[0]} looks at {who[1]}"


def menu(name: str, label: str, offered: Iterable[str], *, none: str = "") -> None:
    """Draw a menu of relations with their directions; what a link names beside them is dropped."""
    titles = ({"": none} if none else {}) | {arc: title(arc) for arc in offered}
    if getattr(state.of(Corpus), name) not in titles:
        state.change(**{name: next(iter(titles))})
    choosing.menu(name, label, titles, width=300)


def measured_relations(study: Study) -> list[str]:
    """Return the relations whose accuracy a study knows, `ALL` first."""
    found = study.sql(
        "SELECT relation, direction FROM relations GROUP BY ALL HAVING count(DISTINCT half) = 2"
    )
    pairs = sorted(found.itertuples(index=False), key=lambda pair: (pair[0] != ALL, *pair))
    return [".".join(pair) for pair in pairs]


def present_relations(study: Study) -> list[str]:
    """Return the relations between any two tokens of a study, and shared prefixes."""
    found = set(study.sql("SELECT DISTINCT relation FROM arcs")["relation"])
    every = found | {relation.partition(":")[0] for relation in found}
    return [f"{relation}.{way}" for relation in sorted(every) for way in DIRECTIONS]
