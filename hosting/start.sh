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
exec mha-viz app --host 0.0.0.0 --port "${PORT:-7860}"
