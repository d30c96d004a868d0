"""The page Many texts as an app of its own."""

from streamlit.testing.v1 import AppTest

from mha_viz.ui.run.studies import studies
from mha_viz.ui.run.study_job import StudyJob
from mha_viz.ui.state.views import View
from tests.ui.opening import opened


def many_texts(*open_parts: str, **params: str) -> AppTest:
    """The page under a link, once its study is there; tables and expanders by their keys."""
    session = dict.fromkeys(open_parts, True)
    return made(opened("mha_viz.ui.many_texts.page.page", session=session, **params))


def made(app: AppTest) -> AppTest:
    """The page once the study that it waits for is there, was stopped, or has failed."""
    if app.segmented_control:  # of a study that was there already
        return app
    making(app).wait()
    return app.run()


def making(app: AppTest) -> StudyJob:
    view = app.session_state.view
    assert isinstance(view, View)
    found = studies().find(view)
    assert found is not None
    return found
