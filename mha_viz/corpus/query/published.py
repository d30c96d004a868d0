"""The figures of Clark et al. 2019 for BERT-base, beside a study of the same model."""

from importlib.resources import files

import pandas as pd

from mha_viz.corpus.treebank.relations import KEYS
from mha_viz.errors import ArgumentError

MODEL = "bert-base-uncased"  # in lower case, 12 layers of 12 heads, as the paper's
PUBLISHED = "published"  # a question to `Study.best_heads`
_TABLE = files("mha_viz.corpus.treebank") / "clark_2019.csv"
_PERCENT = ["accuracy", "offset_baseline"]


def beside_published(best: pd.DataFrame, relations: pd.DataFrame, model: str) -> pd.DataFrame:
    """Put the published head and accuracy of each relation beside a study's own.

    Args:
        best: `best_heads(relations, "relations")`.
        relations: the study's table of that name.
        model: name of the study's model, which must be the paper's.

    Returns:
        A row per relation that both have, in the paper's order: relation, direction, layer, head,
        n, accuracy, low, high and offset_baseline of the study; the paper's own, which begin with
        `published_`; and published_head_here, the accuracy of the paper's head in the study.
        Accuracies are 0 to 1.

    Raises:
        ArgumentError: figures of another model would say nothing.

    Source: Clark et al. 2019, Table 1; numbers from their Syntax_Analysis.ipynb, which makes it.
    """
    if model.replace("\\", "/").rstrip("/").rpartition("/")[2] != MODEL:
        raise ArgumentError(
            f"Clark et al. 2019 report on {MODEL}, and this study is of {model}: there is nothing "
            'to put beside it. Its own heads are in best_heads("relations").'
        )
    with _TABLE.open() as file:
        paper = pd.read_csv(file)
    paper[_PERCENT] /= 100
    place = [*KEYS, "layer", "head"]
    here = relations.set_index(place)["accuracy"].rename("published_head_here")
    paper = paper.join(here, on=place)
    own = [name for name in paper if name not in (*KEYS, "published_relation", here.name)]
    paper = paper.rename(columns={name: f"published_{name}" for name in own})
    first = [*place, "n", "accuracy", "low", "high", "offset_baseline"]
    return paper.merge(best[first], on=KEYS)[[*first, *paper.columns.drop(KEYS)]]
