"""Lab 9's runs that are stored: the film, and the measurements of its trained model."""

from functools import partial

from mha_viz.core.stored_runs import StoredRun
from mha_viz.learn.labs.how_heads_learn import loss_landscape as lab
from mha_viz.learn.labs.how_heads_learn.film import Film, film

DEFAULTS = N_HEADS, N_STEPS, *_ = (4, 400, 0.003, 0)  # with its rate and its seed
SETTINGS = (*DEFAULTS, "adam")
FILM = StoredRun("how_heads_learn", SETTINGS, Film, partial(film, *DEFAULTS))
CURVATURE = StoredRun(
    "how_heads_learn_curvature",
    SETTINGS,
    lab.Curvature,
    lambda: lab.curvature(N_HEADS, film(*DEFAULTS).weights[N_STEPS]),
)
PLANES = {
    kind: StoredRun(
        f"how_heads_learn_plane_{kind}",
        (*SETTINGS, kind),
        lab.Plane,
        partial(lab.plane_of_run, SETTINGS, kind),
    )
    for kind in lab.KINDS
}
STORED = (FILM, CURVATURE, *PLANES.values())
