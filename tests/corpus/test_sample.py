"""The shipped treebank is UD v2: checked line by line, by rules of its own, without our reader."""

from mha_viz.corpus.treebank.trees import SAMPLE

UPOS = set("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())
RELATIONS = set(
    """acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse
    dislocated expl fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis
    punct reparandum root vocative xcomp""".split()
)
SUBTYPES = set(
    """acl:relcl aux:pass cc:preconj compound:prt csubj:pass det:predet nmod:desc nmod:poss
    nmod:unmarked nsubj:outer nsubj:pass obl:agent obl:unmarked advcl:relcl""".split()
)


def blocks():
    text = SAMPLE.read_text("utf-8")
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        comments = [line[2:].split(" = ", 1) for line in lines if line.startswith("#")]
        rows = [line.split("\t") for line in lines if not line.startswith("#")]
        yield dict(comments), rows


BLOCKS = list(blocks())


def words(rows):
    return [row for row in rows if row[0].isdigit()]


def test_sample_has_the_tags_and_relations_of_ud() -> None:
    for about, rows in BLOCKS:
        for _, form, lemma, upos, _, feats, head, relation, _, _ in words(rows):
            assert upos in UPOS and "_" not in (lemma, head)
            assert relation in RELATIONS | SUBTYPES, (about["sent_id"], form)
            names = [feat.split("=")[0] for feat in feats.split("|")]
            assert names == sorted(set(names), key=str.lower)  # UD's order, each once
