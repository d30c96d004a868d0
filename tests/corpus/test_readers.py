"""Files of every kind: what is read of them, and what is skipped."""

import gzip
import io
import json
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyarrow import parquet

from mha_viz.corpus.sources.readers import ending_of, is_wrapped, passages
from mha_viz.corpus.sources.reading import MAX_LINE, OpenFile, Passage
from mha_viz.errors import SourceError

TEXTS = ["The cat sat, still.", "Er sagte: „Überall Öl“; ja.", "猫は座った。", 'She "quoted"\nhim.']


def read_passages(
    content: bytes, name: str, column: str | None = None
) -> tuple[list[Passage], list[tuple[str, str]]]:
    """Return the texts that can be read, and the number of those that were skipped."""
    skipped: list[tuple[str, str]] = []
    file = OpenFile(io.BytesIO(content), name, column, lambda *skip: skipped.append(skip))
    return list(passages(file, ending_of(name))), skipped


def read(
    content: bytes, name: str, column: str | None = None
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Place and text of what can be read, and what was skipped."""
    found, skipped = read_passages(content, name, column)
    return [(passage.location, passage.text) for passage in found], skipped


def as_text(texts: list[str]) -> bytes:
    return "".join(" ".join(text.split()) + "\n" for text in texts).encode()


def as_json_lines(texts: list[str]) -> bytes:
    return "".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(texts)).encode()


def as_csv(texts: list[str]) -> bytes:
    rows = ['{},"{}"\r\n'.format(i, text.replace('"', '""')) for i, text in enumerate(texts)]
    return ("id,Text\r\n" + "".join(rows)).encode()


def as_json_list(texts: list[str]) -> bytes:
    return json.dumps([{"id": i, "text": t} for i, t in enumerate(texts)], indent=1).encode()


def as_tsv(texts: list[str]) -> bytes:
    rows = [f"{i}\t{' '.join(text.split())}\n" for i, text in enumerate(texts)]
    return ("id\ttext\n" + "".join(rows)).encode()


def as_parquet(texts: list[str], **options: object) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pa.table({"id": range(len(texts)), "text": texts}), file, **options)
    return file.getvalue()


KINDS: dict[str, Callable[[list[str]], bytes]] = {
    "a.txt": as_text,
    "a.json": as_json_list,
    "a.jsonl": as_json_lines,
    "a.ndjson": as_json_lines,
    "a.csv": as_csv,
    "a.tsv": as_tsv,
    "a.parquet": as_parquet,
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_gives_its_texts_in_order_packed_or_not(name: str, packed: bool) -> None:
    content = KINDS[name](TEXTS)
    name += ".gz" * packed
    found, skipped = read(gzip.compress(content, mtime=0) if packed else content, name)
    on_lines = ending_of(name) in (".txt", ".tsv")  # which cannot hold a line end
    assert [text for _, text in found] == [" ".join(t.split()) if on_lines else t for t in TEXTS]
    assert not skipped


@pytest.mark.parametrize(
    ("content", "column"),
    [
        (as_text(TEXTS), None),
        (as_json_lines(TEXTS), None),
        (as_json_list(TEXTS), None),
        (as_parquet(TEXTS), None),
        (as_csv(TEXTS), "Text"),  # a column was named, so it must be a table
    ],
)
def test_what_has_no_name_that_tells_is_told_by_its_content(
    content: bytes, column: str | None
) -> None:
    found, _ = read(content, "standard input", column)
    assert [text.split() for _, text in found] == [text.split() for text in TEXTS]


# --- plain text ---------------------------------------------------------------------------------

WRAPPED = """\
It is a truth universally acknowledged, that a single man
in possession of a good fortune, must be in want of a wife.

However little known the feelings or views of such a man may
be on his first entering a neighbourhood, this truth is so well
fixed in the minds of the surrounding families,
that he is considered as the rightful property of some one or
other of their daughters.


"My dear Mr. Bennet," said his lady to him one day, "have you
heard that Netherfield Park is let at last?"
"""


def test_paragraphs_of_a_text_that_was_wrapped_to_a_page() -> None:
    found, _ = read(WRAPPED.encode(), "emma.txt")
    assert [place for place, _ in found] == ["emma.txt:1", "emma.txt:4", "emma.txt:11"]
    assert found[0][1].endswith(
        "single man in possession of a good fortune, must be in want of a wife."
    )


@pytest.mark.parametrize(
    "text",
    [
        "A sentence on a line of its own, as long as it likes to be.\nAnother.\nA third one here.\n"
        "\nA new document begins after the blank line, and goes on for a while.\nShort.\nEnd.\n",
        "one\ntwo\n\nthree\nfour\n",  # a list of words
        WRAPPED.replace("\n\n", "\n").replace("\n\n", "\n"),  # nothing parts paragraphs
        "\n\n".join(line for line in WRAPPED.splitlines() if line),  # each line stands alone
        "",
    ],
)
def test_all_else_is_one_text_a_line(text: str) -> None:
    assert not is_wrapped(text.splitlines())
    found, _ = read(text.encode(), "a.txt")
    numbered = [(f"a.txt:{n}", line) for n, line in enumerate(text.splitlines(), 1) if line]
    assert found == numbered


# --- what cannot be read ------------------------------------------------------------------------


def test_a_line_paragraph_or_element_too_long_is_skipped_with_its_place() -> None:
    longest = b"x" * MAX_LINE
    found, skipped = read(b"One.\n" + longest + b"y\n" + longest + b"\nFour.", "a.txt")
    assert [place for place, _ in found] == ["a.txt:1", "a.txt:3", "a.txt:4"]
    assert [place for place, _ in skipped] == ["a.txt:2"]
    endless = (WRAPPED.splitlines()[0] + "\n") * (MAX_LINE // 50)
    found, skipped = read((WRAPPED + "\n" + endless + "\nThe end.").encode(), "a.txt")
    assert len(found) == 4 and found[-1][1] == "The end."
    assert skipped == [("a.txt:14", f"The paragraph is longer than {MAX_LINE:,} characters.")]
    content = json.dumps(["One.", {"text": "x" * MAX_LINE}, "Three."]).encode()
    found, skipped = read(content, "a.json")
    assert found == [("a.json:1", "One."), ("a.json:3", "Three.")]
    assert skipped == [("a.json:2", f"The element is longer than {MAX_LINE:,} characters.")]


def test_broken_json_lines_are_skipped_with_their_places() -> None:
    content = (
        b'{"text": "One."}\n{"text": \n\n{"title": "x"}\n{"text": 7}\n[1]\n"Six."\n' + b"[" * 10**5
    )
    found, skipped = read(content, "a.jsonl")
    assert found == [("a.jsonl:1", "One."), ("a.jsonl:7", "Six.")]
    assert [place for place, _ in skipped] == [f"a.jsonl:{n}" for n in (2, 4, 5, 6, 8)]
    assert "is no JSON" in skipped[0][1] and "no field “text”" in skipped[1][1]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_a_json_list_gives_each_string_and_object_by_its_number(name: str) -> None:
    """Cut a sign in two by the end of what is read at once, too."""
    texts = ["One, [two] {three}.", 'He said "no\\".', "é" * 2**17 + '"\\' * 7919, "Four."]
    assert read(json.dumps(texts).encode(), name)[0] == [
        (f"{name}:{number}", text) for number, text in enumerate(texts, 1)
    ]
    mixed = (
        b'\xef\xbb\xbf [{"text": "One."}, 7, {"title": "x"}, [["Two"]], {"text": 3}, "Six.", nul]'
    )
    found, skipped = read(mixed, name)
    assert found == [(f"{name}:1", "One."), (f"{name}:6", "Six.")]
    assert [place for place, _ in skipped] == [f"{name}:{n}" for n in (2, 3, 4, 5, 7)]
    assert "The element is no JSON" in skipped[-1][1]
    assert read(b"[]", name) == ([], [])


def test_broken_rows_are_skipped_with_their_places() -> None:
    content = (
        b'id;text\n1;One.\n2;Two;more\n3\n\n4;"Four\nlines."\n5;"' + b"x\n" * 70_000 + b"6;Six.\n"
    )
    found, skipped = read(content, "a.csv")
    assert found[:2] == [("a.csv:2", "One."), ("a.csv:6", "Four\nlines.")]
    assert found[-1][1] == "Six."
    places = [place for place, _ in skipped]
    assert places[:3] == ["a.csv:3", "a.csv:4", "a.csv:8"]  # the last: a quote that nothing closes
    assert "3 fields, and the header has 2" in skipped[0][1] and "limit" in skipped[2][1]


def test_rows_without_a_text_are_skipped_with_their_places() -> None:
    file = io.BytesIO()
    bad = pa.array([b"One.", None, b"\xff", b"Four."]).cast(pa.binary()).view(pa.string())
    parquet.write_table(pa.table({"words": bad.dictionary_encode()}), file)
    found, skipped = read(file.getvalue(), "a.parquet")
    assert found == [("a.parquet:1", "One."), ("a.parquet:4", "Four.")]
    assert [place for place, _ in skipped] == ["a.parquet:2", "a.parquet:3"]


PACKED = gzip.compress(b"One.\n" * 10**4, mtime=0)  # every worker must name its tests alike


@pytest.mark.parametrize(
    ("content", "name", "column", "said"),
    [
        (as_text(TEXTS), "a.txt", "text", "is plain text and has no column “text”"),
        (as_csv(TEXTS), "a.csv", "words", "no column “words”; it has “id”, “Text”."),
        (b"a,b\n1,2\n", "a.csv", None, "that holds the texts; it has “a”, “b”."),
        (as_json_lines(TEXTS), "a.jsonl", "id", "“id” of a.jsonl holds no text"),
        (b'["One."', "a.json", None, "a.json ends within its list"),
        (b'["One."]\n["Two."]', "a.json", None, "a.json goes on after its list"),
        (b'{\n "texts": ["One."]\n}', "a.json", None, "a.json holds neither a JSON list nor"),
        (as_parquet(TEXTS)[:-9], "a.parquet", None, "cannot be read as Parquet"),
        (PACKED[:-20], "a.txt.gz", None, "cannot be read to its end"),
        ("One.\n".encode("utf-16"), "a.txt", None, "UTF-16"),
        (b"\x89PNG\r\n\0\0\0", "standard input", None, "is no text"),
    ],
)  # fmt: skip
def test_a_useless_file_is_told_in_one_sentence(
    content: bytes, name: str, column: str | None, said: str
) -> None:
    with pytest.raises(SourceError) as error:
        read(content, name, column)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


# --- treebanks ----------------------------------------------------------------------------------


def test_a_treebank_brings_its_sentences() -> None:
    def sentence(text: str) -> bytes:
        *words, stop = [*text.rstrip(".").split(), "."]
        rows = [f"1\t{words[0]}\t{words[0]}\tNOUN\t_\t_\t2\tnsubj\t_\t_"]
        rows += [f"2\t{words[1]}\t{words[1]}\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No"]
        rows += [f"3\t{stop}\t{stop}\tPUNCT\t_\t_\t2\tpunct\t_\t_"]
        return "\r\n".join([f"# text = {text}", *rows, "", ""]).encode()

    long = b"# text_en = " + b"x" * MAX_LINE + b"\r\n"
    content = b"# sent_id = 1\r\n" + sentence("Cats sat.") + b"1\tbroken\r\n\r\n" + long
    content += sentence("Dogs ran.") + sentence("Mice hid.")
    for name in ("a.conllu", "standard input"):
        found, skipped = read_passages(content, name)
        assert [(one.location, one.text) for one in found] == [
            (f"{name}:1", "Cats sat."),
            (f"{name}:15", "Mice hid."),
        ]
        trees = [one.sentence for one in found if one.sentence is not None]
        assert [[word.deprel for word in tree.words] for tree in trees] == [
            ["nsubj", "root", "punct"]
        ] * 2
        assert [place for place, _ in skipped] == [f"{name}:{n}" for n in (7, 9, 9)]
    with pytest.raises(SourceError, match="is a treebank and has no column “text”"):
        read(content, "a.conllu", "text")
