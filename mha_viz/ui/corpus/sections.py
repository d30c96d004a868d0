"""The parts of the Corpus page, from the texts to two studies.

Importing it imports torch, plotly, pyarrow and duckdb, so the page does it late.
"""

from collections.abc import Callable
from functools import partial

from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.sample_study import training_steps
from mha_viz.paper.figures import default_head
from mha_viz.ui.corpus import heads, search, texts, two_studies
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Corpus, two_runs
from mha_viz.ui.widgets.components import contents_bar
from mha_viz.ui.widgets.messages.messages import stop_on_error


def draw() -> None:
    """Draw the study of the chosen texts, or its progress."""
    texts.choose()
    two_studies.fit()
    study = texts.made(state.of(Corpus), "study")
    if study is not None:
        texts.about(study)
        _fit(study)
        _parts(study)


def _fit(study: Study) -> None:
    """Replace what a link asks for and this study does not have."""
    state.number_layers(study.layer_numbers)
    layer, head = state.of(Corpus).chosen
    if not (0 <= layer < study.n_layers and 0 <= head < study.n_heads):
        layer, head = default_head(study)
        if state.current().layer_b < 0 and two_runs(state.current()):  # as in Heads
            state.change(layer_b=layer, head_b=head)
        state.change(layer=layer, head=head, query=-1, key=-1)


@fragment
def _parts(study: Study) -> None:
    """Draw the parts in a fragment: a click reruns nothing else on the page."""
    parts: dict[str, Callable[[Study], object]] = {
        "Best heads": heads.draw_best,
        "All heads": heads.draw_all,
        "One head": heads.draw_one,
        "Grammar": heads.draw_grammar,
        "Pairs": heads.draw_pairs,
        "Examples": search.draw_examples,
        "Search": search.draw,
        "Two studies": two_studies.draw,
    }
    if not study.has_trees:
        del parts["Best heads"]
    if not study.pair_measures:
        del parts["Pairs"]
    if (steps := training_steps(study)) is not None:
        parts["Training"] = partial(heads.draw_training, steps=steps)
    with stop_on_error():
        contents_bar.sections({name: partial(draw, study) for name, draw in parts.items()})
        state.push_url()
