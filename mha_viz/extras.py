"""The extras of the package: libraries that only some of its parts need."""

from importlib.util import find_spec

from mha_viz.errors import MissingPackageError

_STUDY = ("conllu", "duckdb", "fsspec", "matplotlib", "pyarrow")
# Each extra of pyproject.toml that the code asks for -> the modules that come with it.
MODULES = {
    "app": (*_STUDY, *"PIL cachetools prometheus_client psutil segno starlette streamlit".split()),
    "cluster": ("ray",),
    "datasets": ("datasets",),
    "figures": ("matplotlib",),
    "maps": ("sklearn", "umap"),
    "notebook": ("anywidget", "matplotlib"),
    "study": _STUDY,
}


def missing(extra: str) -> list[str]:
    """List the modules of an extra that are not installed here."""
    return [module for module in MODULES[extra] if not _is_installed(module)]


def require(extra: str, purpose: str, instead: str = "") -> None:
    """Check that an extra is installed.

    Args:
        extra: one of `MODULES`.
        purpose: what needs it, as the error's sentence begins.
        instead: a sentence on what works without it.

    Raises:
        MissingPackageError: a module of it is missing.

    >>> require("study", "A study")
    """
    if absent := missing(extra):
        raise MissingPackageError(
            f"{purpose} needs packages that are not installed here ({', '.join(absent)}): pip "
            f"install 'mha-viz[{extra}]', or in a clone pip install '.[{extra}]'. {instead}".strip()
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a finder that hides it
        return False
