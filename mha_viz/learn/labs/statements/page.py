"""The page of lab 10. Sentences about the numbers are in `explanations`."""

from collections import Counter
from functools import partial

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError, NotKeptError
from mha_viz.interventions.robustness import Robustness, robustness
from mha_viz.learn.frame import frame
from mha_viz.learn.frame.choices import Choices, among
from mha_viz.learn.labs.statements import measured
from mha_viz.learn.labs.statements import numbers as lab
from mha_viz.learn.labs.statements.explanations import TEXTS, predictions, sides_in_words, why
from mha_viz.learn.labs.statements.numbers import STATEMENTS, Sides, Statement, Verdict, judge
from mha_viz.plots.head_values import layer_lines
from mha_viz.ui.explore import drawing
from mha_viz.ui.run import heavy, memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, picking
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.messages import continue_on_error, plain

SPACES = TEXTS.labels("spaces")
MARKS = {lab.HOLDS: "✓", lab.FAILS: "✗", lab.OPEN: "?", lab.LITTLE: "–", lab.UNDEFINED: "–"}
BADGES = {
    lab.HOLDS: (":material/check_circle:", "green"),
    lab.FAILS: (":material/cancel:", "red"),
    lab.OPEN: (":material/help:", "orange"),
    lab.LITTLE: (":material/remove:", "gray"),
    lab.UNDEFINED: (":material/remove:", "gray"),
}
N_DRAWS = 100  # heads that are switched off, and pairs of them
QUESTION = ("question", "because")  # texts with numbers in them
Measured = dict[str, Sides]
Both = tuple[Measured, Measured]  # of the model, and of the same with random weights


def draw(choices: Choices) -> None:
    """Draw every statement with both sides; the last one is measured on request.

    No fragment: the layer is everybody's, and a button in one could not end its own run.
    """
    scene = picking.picked()
    TEXTS.markdown("opening.text")
    with frame.row():
        layers = choosing.numbered("L", scene.record.n_layers)
        choosing.menu("layer", "Layer", layers, width=90)
        space = choices.segments("space_of", "Subspaces and weights of", SPACES, "W_O")
    reporting.offer_random(state.current())
    layer = state.current().layer
    trained, random = _measured(scene, space), _measured(scene, space, random=True)
    with st.expander("Predict before you read the table", icon=":material/psychology_alt:"):
        for name, right, values in predictions(trained, layer):
            question, because = (TEXTS(f"{name}.{part}", **values) for part in QUESTION)
            options = list(TEXTS.labels(f"{name}.options").values())
            frame.predict(choices, f"{name}-{layer}-{space}", question, options, right, because)
    _table(trained | _failed(scene), random | _failed(scene, random=True), layer)
    for statement in STATEMENTS[:-1]:
        _statement(choices, scene, statement, (trained, random), layer)
    _failure(choices, scene)


def _measured(scene: Scene, space: str, *, random: bool = False) -> Measured:
    """Measure all statements but the last; nothing where random weights are not available."""
    view, untrained = state.current(), _untrained() if random else None
    if random and untrained is None:
        return {}

    def of_text() -> Measured:
        record = scene.record
        if untrained is not None:
            keep = ("pattern", "z") if untrained.backend == "mha_viz" else ("pattern",)
            record = untrained.trace(record.text, record.text_pair, part=record.part, keep=keep)
        found = measured.of_pattern(record.pattern)
        if record.z is None or not record.W_O:
            return found
        return measured.of_outputs(record.z, record.W_O) | found

    name = "random statements" if random else "statements"
    key = (*view.checkpoint, view.part, name, space)
    weights = memory.cache().get(key, lambda: _weights(scene, space, random), lambda _: 10_000)
    return weights | reporting.cached(scene, name, make=of_text)


def _untrained() -> AttentionModel | None:
    """Return the model with random weights, where it is small or was requested."""
    view = state.current()
    return memory.untrained_copy(*view.checkpoint) if reporting.has_random(view) else None


def _weights(scene: Scene, space: str, random: bool) -> Measured:
    load = memory.untrained_copy if random else memory.model
    model = load(*state.current().checkpoint)
    assert model is not None
    try:
        layers = model.head_weights(space, scene.record.part)
    except (NotKeptError, AttentionUnavailableError):
        return {}
    with st.spinner("Comparing weights …"):
        return measured.of_weights([layer.mT if space == "W_O" else layer for layer in layers])


def _table(found: Measured, random: Measured, layer: int) -> None:
    columns = [f"In L{layer}", "Statement", "Layers", "Random weights", "Both sides here"]
    rows = []
    for statement in STATEMENTS:
        sides = found.get(statement.key)
        if sides is None:
            undefined = f"{MARKS[lab.UNDEFINED]} {lab.UNDEFINED}"
            word = "on request" if statement.needs == "loss" else undefined
            rows.append((word, statement.title, "", "", ""))
            continue
        verdict, other = judge(statement, sides), random.get(statement.key)
        word = verdict[layer].word
        others = "" if other is None else _count(judge(statement, other))
        both = sides_in_words(statement, sides, layer)
        rows.append((f"{MARKS[word]} {word}", statement.title, _count(verdict), others, both))
    tall = state.for_type(35 * (len(rows) + 1)) + 2
    st.dataframe(pd.DataFrame(rows, columns=columns), hide_index=True, height=tall)


def _count(verdicts: list[Verdict]) -> str:
    """Count the layers in which it holds; those that decide neither way are named."""
    counts = Counter(verdict.word for verdict in verdicts)
    text = f"{lab.HOLDS} in {counts.pop(lab.HOLDS, 0)} of {len(verdicts)}"
    counts.pop(lab.FAILS, 0)
    return ", ".join([text, *(f"{n} {word}" for word, n in counts.items())])


def _statement(
    choices: Choices, scene: Scene, statement: Statement, both: Both, layer: int
) -> None:
    trained, random = both
    with _expander(choices, statement):
        sides = trained.get(statement.key)
        if sides is None:
            st.info(TEXTS(f"undefined.{statement.needs}"))
            return
        _verdict(statement, sides, random.get(statement.key), layer)
        st.markdown(why(statement, scene.record, trained, layer))
        if choices.toggle(_switch(statement), "Picture by layer"):
            _picture(choices, scene, statement, sides, random.get(statement.key))


def _expander(choices: Choices, statement: Statement) -> DeltaGenerator:
    """Draw a statement's claim below its title; open where the link asks for its picture."""
    is_open = choices.get(_switch(statement), False, among((False, True)))
    place = st.expander(
        f"{STATEMENTS.index(statement) + 1}. {statement.title}",
        expanded=choices.fixed(f"open-{statement.key}", is_open),
    )
    place.markdown(statement.claim)
    place.latex(statement.formula)
    return place


def _switch(statement: Statement) -> str:
    return f"picture-{statement.key}"


def _verdict(statement: Statement, sides: Sides, random: Sides | None, layer: int) -> None:
    verdicts = judge(statement, sides)
    trained = verdicts[layer]
    icon, colour = BADGES[trained.word]
    with st.container(horizontal=True, gap="xsmall"):
        by_draws = "" if trained.certain else ", by random draws"
        st.badge(f"L{layer}: {trained.word}{by_draws}", icon=icon, color=colour)  # type: ignore[arg-type]
        st.badge(f"{_count(verdicts)} layers", color="gray")
        if random is not None:
            others = _count(judge(statement, random))
            st.badge(f"random weights: {others}", icon=":material/casino:", color="gray")
    st.markdown(f"**{sides_in_words(statement, sides, layer)}**")
    st.caption(f"Left: {statement.left}. Right: {statement.right}. Compared {statement.allowed}.")


def _picture(
    choices: Choices, scene: Scene, statement: Statement, sides: Sides, random: Sides | None
) -> None:
    lines = {}
    if sides.exact:
        lines[statement.left] = sides.left
    else:
        low, high = sides.sampled or (sides.low, sides.high)
        lines |= {f"{statement.left}, at least": low, f"{statement.left}, at most": high}
    lines[statement.right] = sides.right
    if random is not None:
        lines[f"{statement.left}, random weights"] = random.left
    lines |= {name: values for name, values in sides.more.items() if name != measured.HARMED}
    arrays = {name: values.detach().cpu().numpy() for name, values in lines.items()}
    table = pd.DataFrame(arrays, index=[f"L{i}" for i in range(scene.record.n_layers)])
    figures.show(
        layer_lines(arrays, statement.title, statement.unit, dark=look.dark()),
        key=choices.key(f"{statement.key}-figure"),
        name=statement.title,
        table=table.reset_index(names="Layer"),
        caption=words.settings(scene, statement.title),
        how_to_read=TEXTS("picture.how_to_read", statement=statement)
        + TEXTS("picture.random") * (random is not None),
    )


def _failure(choices: Choices, scene: Scene) -> None:
    """Draw the statement about failure: measured on request, with progress and Stop."""
    statement, layer = STATEMENTS[-1], state.current().layer
    with _expander(choices, statement):
        with continue_on_error():
            _measure(scene)
        known = _known_failure(scene)
        if not known:
            return
        sides, random = _failed(scene), _failed(scene, random=True).get(statement.key)
        _verdict(statement, sides[statement.key], random, layer)
        st.markdown(why(statement, scene.record, sides, layer, known[0]))
        _picture(choices, scene, statement, sides[statement.key], random)
        for note in dict.fromkeys(known[0].notes):
            st.caption(plain(note))


def _measure(scene: Scene) -> None:
    """Draw the button and run the measurement; another click or text ends it."""
    total, known = scene.head_count, bool(_known_failure(scene))
    n_draws = min(N_DRAWS, total)
    if not known:
        which = "every head" if n_draws == total else f"{n_draws} random heads"
        first = TEXTS("failure.pair") * bool(scene.record.text_pair)
        st.caption(TEXTS("failure.text", which=which) + first)
    icon, key = ":material/play_arrow:", "statements-measure"
    if not st.button("Switch heads off", icon=icon, key=key, type="primary", disabled=known):
        return
    found = [_failing(scene, n_draws, random=False)]
    if _untrained() is not None:
        found.append(_failing(scene, n_draws, random=True))
    progress.keep("statements", scene.key, tuple(found))
    st.rerun()  # the table above shows it, too


def _failing(scene: Scene, n_draws: int, random: bool) -> Robustness:
    """Measure losses with heads off, in the model or in the same with random weights."""
    checkpoint, text = state.current().checkpoint, scene.record.text
    model = drawing.load_model(state.current())
    work = heavy.work(
        partial(robustness, heavy.model_of(checkpoint, random), text, n_draws),
        (checkpoint, text, random),
        progress.seconds(checkpoint, model, [text], 2.0 * n_draws),
    )

    def words(done: int, of: int) -> progress.Progress:
        return done / max(of, 1), "Random weights …" if random else f"{done:,} of {of:,}"

    found: Robustness = progress.done(work, f"statements-stop{random}", "Measuring …", words)
    return found


def _known_failure(scene: Scene) -> tuple[Robustness, ...]:
    """Return what was found on this model and text, and with random weights where available."""
    return progress.results("statements").get(scene.key, ())


def _failed(scene: Scene, random: bool = False) -> Measured:
    found = _known_failure(scene)[int(random) :]
    return measured.of_loss(found[0], scene.record.n_layers) if found else {}
