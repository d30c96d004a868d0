"""The atlases of the shipped models, which the site carries and its front page opens.

They are made while the site is built, of the studies that lie beside the models.
"""

from functools import cache

import mha_viz as mv
from mha_viz.atlas.atlas_files import atlas_files
from mha_viz.corpus.run.sample_study import sample_study

MODELS = ("tiny-bert", "tiny-gpt2", "tiny-llama")
PLACE = "<!-- atlases -->"  # in index.md: on a forge there are no atlases
_LISTED = ", ".join(f"[{name}](atlas/{name}/index.html)" for name in MODELS)
LINKS = (
    f"**Click without installing anything**: the atlases of {_LISTED}. Each shows all heads of a "
    "model over 196 sentences, and a page for each head."
)


@cache
def site_files() -> dict[str, bytes]:
    """File of the site -> its content; made once, however often `mkdocs serve` builds."""
    return {f"atlas/{name}/{file}": content for name in MODELS for file, content in _atlas(name)}


def _atlas(name: str) -> list[tuple[str, bytes]]:
    model = mv.load(name)
    study = sample_study(model)
    assert study is not None, f"the study of {name} is not that of its weights"
    return list(atlas_files(study, model))
