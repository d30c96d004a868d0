"""What Streamlit Community Cloud starts: the app, in public, under the Cloud's names.

The Cloud gives no flags and sets no variables, and .streamlit/config.toml is for all who run the
app. So what is the Cloud's own is said here, before the app itself is read.
"""

import importlib
import os
import sys
from pathlib import Path

import streamlit as st
from streamlit import config

ROOT = Path(__file__).parents[2]

os.environ.setdefault("MHA_VIZ_PUBLIC", "1")
config.set_option("server.allowedHosts", ["*.streamlit.app", "localhost", "127.0.0.1"])
sys.path.insert(0, str(ROOT))  # the package is not installed there: it lies in the clone

# Streamlit looks for a line such as the first in this file, without running it, and then serves
# what the name stands for: the app itself, with all that stands before its pages.
app = st.App(ROOT / "app.py")
app = importlib.import_module("app").app
