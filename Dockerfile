# The app for everybody who opens its address: docs/hosting.md. Two commands:
#     docker build --tag mha-viz .
#     docker run --rm --read-only --tmpfs /tmp --publish 127.0.0.1:8501:7860 mha-viz

FROM python:3.11.14-slim-bookworm AS build
# Where PyTorch comes from: PyPI's build for Linux brings CUDA, 6 GB.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
# Its list first: while that stays as it is, a change of the code installs nothing again.
COPY requirements.txt ./
RUN python -m venv --without-pip /opt/mha-viz
RUN pip --python /opt/mha-viz/bin/python install --no-deps --index-url "$TORCH_INDEX" \
        "$(grep '^torch==' requirements.txt)"
RUN pip --python /opt/mha-viz/bin/python install --requirement requirements.txt
COPY . .
# Headers and the tests of others serve no visitor.
RUN pip --python /opt/mha-viz/bin/python install --no-deps --no-build-isolation . && \
    find /opt/mha-viz/lib -regextype posix-extended \
        -regex '.*/site-packages/((torch|pyarrow)/(include|share|test|bin/test_.*)|.*/tests)' \
        -prune -exec rm -r {} +

FROM python:3.11.14-slim-bookworm
RUN useradd --uid 1000 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin visitor
COPY --from=build /opt/mha-viz /opt/mha-viz
# All that is written goes to /tmp, so the rest of the file system may be read-only. What the modules
# compile to is there already.
ENV PATH=/opt/mha-viz/bin:$PATH \
    HOME=/tmp \
    MHA_VIZ_PUBLIC=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 \
    STREAMLIT_SERVER_PORT=7860
WORKDIR /tmp
USER 1000:1000
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://localhost:7860/healthz', timeout=8)"]
CMD ["mha-viz", "app"]
