"""Lab 9's runs that are stored: the film, and the measurements of its trained model."""

from functools import partial

from mha_viz.learn.frame.stored_runs import StoredRun
from mha_viz.learn.labs.how_heads_learn.film import Film, film
from mha_viz.learn.labs.how_heads_learn.loss_landscape import (
    KINDS,
    Curvature,
    Plane,
    curvature,
    plane_of_run,
)

N_HEADS, N_STEPS, RATE, SEED = DEFAULTS = (4, 400, 0.003, 0)
SETTINGS = (*DEFAULTS, "adam")
FILM = StoredRun("how_heads_learn", SETTINGS, Film, partial(film, *DEFAULTS))
CURVATURE = StoredRun(
    "how_heads_learn_curvature",
    SETTINGS,
    Curvature,
    lambda: curvature(N_HEADS, film(*DEFAULTS).weights[N_STEPS]),
)
PLANES = {
    kind: StoredRun(
        f"how_heads_learn_{kind}",
        (*SETTINGS, kind),
        Plane,
        partial(plane_of_run, *SETTINGS, kind),
    )
    for kind in KINDS
}
STORED = (FILM, CURVATURE, *PLANES.values())
