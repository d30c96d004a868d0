#!/bin/sh
# What a container runs: the app on all addresses, at the port that its host names.
set -eu

# A Hugging Face Space is opened by a name that its environment alone tells.
names="${STREAMLIT_SERVER_ALLOWED_HOSTS:-${SPACE_HOST:-}}"
unset STREAMLIT_SERVER_ALLOWED_HOSTS
if [ -n "$names" ]; then
    # The health check calls localhost, whatever the names are.
    export STREAMLIT_SERVER_ALLOWED_HOSTS="$names localhost"
fi
if [ -n "${SPACE_HOST:-}" ]; then
    # The Hub shows a Space in a frame of its own page, where a browser sends no cookie that says
    # nothing of it; without it no file can be uploaded. Such a cookie travels by TLS alone.
    export STREAMLIT_SERVER_XSRF_COOKIE_SAME_SITE=none
    export MHA_VIZ_EMBEDDED_IN="${MHA_VIZ_EMBEDDED_IN:-https://huggingface.co}"
fi
exec mha-viz app --host 0.0.0.0 --port "${PORT:-7860}"
