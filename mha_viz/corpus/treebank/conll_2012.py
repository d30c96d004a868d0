"""Sentences with coreference and without dependency trees, read from CoNLL-2012 (OntoNotes).

Source: Pradhan et al. 2012, "CoNLL-2012 shared task", and https://conll.cemantix.org/2012/data.html
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from mha_viz.corpus.treebank.mentions import read_mentions
from mha_viz.corpus.treebank.trees import ROOT, Sentence, Tree, Word, find_spans, read_blocks
from mha_viz.errors import TextError
from mha_viz.text.cleaning import clean_text, visible

_BEGIN = re.compile(r"#begin document\b")
_COLUMNS = 12  # of a sentence in which no predicate is annotated; each predicate adds one
_FORM, _TAG, _PARSE = 3, 4, 5  # the columns that are read, with the last one
_CHAINS = re.compile(r"[-_]|(\(?[^-()|]+\)|\([^-()|]+)(\|(\(?[^-()|]+\)|\([^-()|]+))*")
_BRACKETS = dict(zip("-LRB- -RRB- -LSB- -RSB- -LCB- -RCB-".split(), "()[]{}", strict=True))
_PENN = tomllib.loads(Path(__file__).with_name("penn_treebank.toml").read_text("utf-8"))
_UPOS = {tag: upos for upos, tags in _PENN["upos"].items() for tag in tags.split()}


def read_conll_2012(
    lines: Iterable[str],
    name: str = "a.v4_gold_conll",
    on_fault: Callable[[str, str], None] = lambda location, reason: None,
) -> Iterator[Tree]:
    """Yield the sentences of a file, one at a time; a broken one is reported and skipped.

    A document begins with each line `#begin document`, which every part of one has. Words are
    parted by a space, for the format does not say where there was none.

    >>> rows = ["#begin document (a); part 000", "a 0 0 Ann NNP (S(NP*) - - - - * * (7)"]
    >>> [read] = read_conll_2012([*rows, "a 0 1 slept VBD (VP*)) - - - - * (V*) -"])
    >>> read.text, read.document, read.sentence.mentions
    ('Ann slept', 1, (Mention(entity='7', start=0, end=1, head=0),))
    """
    ended = ("" if line.startswith("#end document") else line for line in lines)
    yield from read_blocks(ended, name, on_fault, _BEGIN, _sentence)


def _sentence(rows: list[str]) -> Sentence:
    fields = [row.split() for row in rows if not row.startswith("#")]
    for number, row in enumerate(fields, start=1):
        if len(row) < _COLUMNS:
            raise TextError(
                f"Expected CoNLL-2012, whose rows have {_COLUMNS} columns or more; that of word "
                f"{number} has {len(row)}."
            )
        if not _CHAINS.fullmatch(row[-1]):
            raise TextError(
                f"The last column of word {number} is “{visible(row[-1])}”: expected “-” or "
                "brackets of mentions, as (12, 12), (12) or (1|(2."
            )
    forms = [_form(row[_FORM]) for row in fields]
    text = clean_text(" ".join(forms))
    spans = find_spans(text, [(form, [form], True) for form in forms])
    words = tuple(
        Word(form, "_", _UPOS.get(row[_TAG], "X"), ROOT, "", *span)
        for row, form, span in zip(fields, forms, spans, strict=True)
    )
    heads = heads_of_phrases([row[_PARSE] for row in fields], [row[_TAG] for row in fields])
    chains = [{"Entity": row[-1].replace("|", "")} for row in fields]
    return Sentence(text, words, read_mentions(chains, heads), ends=(len(words),))


def _form(written: str) -> str:
    """Undo how the treebank writes brackets, and stops in speech ("/.")."""
    return _BRACKETS.get(written, written[1:] if written in ("/.", "/?") else written)


def heads_of_phrases(parse: Sequence[str], tags: Sequence[str]) -> list[int]:
    """Find the word that each word hangs from, by the heads of the phrases that it is in.

    Args:
        parse: the phrases that each word begins and ends, as "(S(NP*" and "*)".
        tags: of the words, parts of speech of the Penn Treebank.

    Returns:
        Numbers of words, `ROOT` for the head of all; of a sentence without phrases each word hangs
        from the next one, so that the last word of a mention stands for it.

    >>> heads_of_phrases(["(NP(NP*", "*)", "(PP*", "(NP*)))"], ["DT", "NN", "IN", "NN"])
    [1, -1, 3, 1]
    """
    heads = [*range(1, len(tags)), ROOT]
    opened: list[tuple[str, list[tuple[str, int]]]] = [("", [])]  # phrases: kinds, heads of parts
    for number, (bit, tag) in enumerate(zip(parse, tags, strict=True)):
        begun, _, ended = bit.partition("*")
        opened += [(kind, []) for kind in begun.split("(")[1:]]
        opened[-1][1].append((tag, number))
        for _ in range(min(ended.count(")"), len(opened) - 1)):
            kind, parts = opened.pop()
            head = _head_part(kind, parts)
            heads[head] = ROOT  # until the phrase around it ends
            for _, part in parts:
                if part != head:
                    heads[part] = head
            opened[-1][1].append((kind, head))
    return heads


def _head_part(kind: str, parts: list[tuple[str, int]]) -> int:
    rules = "heads_of_noun_phrases" if kind in _PENN["noun_phrases"] else "heads_of_others"
    for step, kinds in _PENN[rules]:
        if matching := [head for part, head in parts[::step] if part in kinds]:
            return matching[0]
    return parts[-1][1]
