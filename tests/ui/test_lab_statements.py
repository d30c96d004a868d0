"""Lab 10's page: the table, verdicts, controls, odd texts and models."""

import mha_viz as mv
from mha_viz.learn.labs.statements.measured import of_outputs, of_pattern, of_weights
from mha_viz.learn.labs.statements.numbers import BY_KEY, STATEMENTS, judge
from tests.making.comparing import near
from tests.ui.compare_app import TEXT, check, figures, table
from tests.ui.lab_app import lab


def verdicts(app) -> dict[str, str]:
    shown = table(app, "Statement", "Layers")
    return dict(zip(shown["Statement"], shown.iloc[:, 0], strict=True))


def test_table_and_figure_have_the_verdicts_and_sides_of_the_library():
    app = lab("statements", "verdicts", text=TEXT, model="tiny-gpt2", layer="2")
    check(app)
    model = mv.load("tiny-gpt2")
    record = model.trace(TEXT)
    outputs = of_outputs(record.z, record.W_O)
    weights = of_weights([layer.mT for layer in model.head_weights("W_O")])
    shown = verdicts(app)
    assert list(shown) == [statement.title for statement in STATEMENTS]
    rows = table(app, "Statement", "Layers").set_index("Statement")
    for key, side in (weights | outputs | of_pattern(record.pattern)).items():
        judged = judge(BY_KEY[key], side)
        assert shown[BY_KEY[key].title].endswith(judged[2].word)
        n_held = sum(verdict.word == "holds" for verdict in judged)
        assert f" {n_held} of 4" in rows.loc[BY_KEY[key].title, "Layers"]
    drawn = figures(app)[0]
    assert len(drawn["layout"]["annotations"]) == len(STATEMENTS)
    right = next(trace for trace in drawn["data"] if trace.get("name") == "right side")
    row = list(BY_KEY).index("variance")
    ratios = (outputs["variance"].right / outputs["variance"].left).clamp(max=1).tolist()
    points = zip(right["x"], right["y"], strict=True)
    assert [x for x, y in points if row <= y < row + 1] == near(ratios)
