"""The atlas of a study, made on request and downloaded as one file."""

from functools import partial

import streamlit as st

from mha_viz.atlas.atlas_files import atlas_zip
from mha_viz.corpus.query.study import Study
from mha_viz.ui.many_texts import TEXTS
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.state.views import ManyTexts
from mha_viz.ui.widgets.exports import downloads
from mha_viz.ui.widgets.messages import progress


def draw(study: Study, view: ManyTexts) -> None:
    """Draw the button that makes the atlas, and once it is made the one that downloads it."""
    st.caption(TEXTS("atlas.menu"))
    key = ("atlas", view.checkpoint, str(study.folder))
    content = memory.cache().find(key)
    if content is None:
        button_slot = st.empty()
        if not button_slot.button("Make the atlas", icon=":material/play_arrow:", key="make-atlas"):
            return
        button_slot.empty()
        make = partial(atlas_zip, heavy.model_of(view.checkpoint), study.folder)
        work = heavy.work(make, key)
        content = progress.done(work, "stop-atlas", "Making the atlas …", progress.of_total)
        memory.cache().get(key, lambda: content, len)
    name = f"{downloads.safe_name(study.manifest['model']['name'], 'model')}_atlas.zip"
    icon = ":material/download:"
    downloads.download("Download the atlas", name, lambda: content, key="get-atlas", icon=icon)
