"""Imported by whoever runs pages without a browser.

Each run of an AppTest looks through all installed packages for components, for longer than most
pages take; here they are looked through once. It also asks a thousand times a second whether the
page is there; here it waits for the page's thread.
"""

import functools

from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import local_script_runner
from streamlit.testing.v1.local_script_runner import LocalScriptRunner

manifest_scanner.scan_component_manifests = functools.cache(
    manifest_scanner.scan_component_manifests
)
_check_stopped = local_script_runner.require_widgets_deltas


def _wait(runner: LocalScriptRunner, timeout: float = 3) -> None:
    """Wait for the end of a page's run, then let Streamlit see that it has ended."""
    assert runner._script_thread is not None
    runner._script_thread.join(timeout)
    _check_stopped(runner, timeout)


local_script_runner.require_widgets_deltas = _wait
