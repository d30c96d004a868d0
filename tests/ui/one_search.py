"""Imported by whoever runs pages without a browser.

Each run of an AppTest looks through all installed packages for components, for longer than most
pages take; here they are looked through once.
"""

import functools

from streamlit.components.v2 import manifest_scanner

manifest_scanner.scan_component_manifests = functools.cache(
    manifest_scanner.scan_component_manifests
)
