"""A small file of CoNLL-2012, made by hand: two parts of one document, and what it asks."""

from collections.abc import Sequence

# Of each word: form, part of speech, the phrases that it begins and ends, the chains of mentions.
TOLD = """Ann NNP (TOP(S(NP*) (1)
told VBD (VP* -
the DT (NP(NP* (2
tall JJ * -
man NN *) -
who WP (SBAR(WHNP*) -
slept VBD (S(VP*)))) 2)
that IN (SBAR* -
she PRP (S(NP*) (1)
left VBD (VP*)))) -
. . *)) -"""
WOKE = """His PRP$ (TOP(S(NP(NP* (3|(2)
dog NN *) -
-LRB- -LRB- (PRN* -
Rex NNP (NP*) (3)
-RRB- -RRB- *)) 3)
woke VBD (VP* -
him PRP (NP*)) (2)
/. . *)) -"""
SLEPT = """Eve NNP (TOP(S(NP*) (2)
slept VBD (VP*) -
. . *)) -"""
SHE = """She PRP (TOP(S(NP*) (2)
woke VBD (VP*) -
. . *)) -"""
TEXTS = [
    "Ann told the tall man who slept that she left .",
    "His dog ( Rex ) woke him .",
    "Eve slept .",
    "She woke .",
]


def part(number: int, *sentences: str) -> str:
    """A part of a document, in the columns that OntoNotes has."""
    name = "nw/made/00/made_0001"
    blocks = [block(sentence, f"{name} {number}") for sentence in sentences]
    return f"#begin document ({name}); part {number:03d}\n{''.join(blocks)}#end document\n"


def block(sentence: str, begin: str = "a 0", more: Sequence[str] = ("*", "(V*)")) -> str:
    """The rows of a sentence, each word's predicates among them, and a blank line."""
    rows = []
    for number, row in enumerate(sentence.splitlines()):
        form, tag, phrases, chains = row.split()
        columns = [begin, number, form, tag, phrases, "-", "-", "-", "-", "*", *more, chains]
        rows.append("   ".join(map(str, columns)) + "\n")
    return "".join(rows) + "\n"


FILE = part(0, TOLD, WOKE) + part(1, SLEPT, SHE)
