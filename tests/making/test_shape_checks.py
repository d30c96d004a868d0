"""The type checker reads every module whose signatures carry shapes, as pytest's options say."""

import ast
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import TypeCheckError

import mha_viz
from mha_viz.plots.head_values import by_layer

PACKAGE = Path(mha_viz.__file__).parent


def imports(tree: ast.Module) -> set[tuple[str, str]]:
    """Return what is imported: (module, name)."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {(str(node.module), alias.name) for node in found for alias in node.names}


def shapes_named(tree: ast.Module, kinds: set[str]) -> set[str]:
    """Return the shapes that a module gives a name of its own (`Mask = Bool[Tensor, ...]`)."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return {
        target.id
        for node in assigned
        if kinds & {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def modules_with_shapes() -> set[str]:
    """Return the modules that import jaxtyping, or a shape that such a module has named."""
    trees = {
        ".".join(["mha_viz", *path.relative_to(PACKAGE).with_suffix("").parts]): ast.parse(
            path.read_text(encoding="utf-8")
        )
        for path in PACKAGE.rglob("*.py")
    }
    imported = {name: imports(tree) for name, tree in trees.items()}
    shapes = set()
    for name, tree in trees.items():
        kinds = {what for module, what in imported[name] if module == "jaxtyping"}
        shapes |= {("jaxtyping", kind) for kind in kinds}
        shapes |= {(name, shape) for shape in shapes_named(tree, kinds)}
    return {name for name, found in imported.items() if found & shapes}


def test_every_module_with_shapes_is_checked(pytestconfig: pytest.Config) -> None:
    *checked, _ = pytestconfig.getoption("jaxtyping_packages").split(",")
    with_shapes = modules_with_shapes()
    assert {"mha_viz.core.attention.attention", "mha_viz.core.attention.multi_head"} <= with_shapes
    missed = [
        name
        for name in with_shapes
        if not any(f"{name}.".startswith(f"{package}.") for package in checked)
    ]
    assert not missed, missed


def test_a_wrong_shape_is_refused() -> None:
    with pytest.raises(TypeCheckError, match="by_layer"):
        by_layer(np.zeros((2, 3, 5)), "Entropy", "nats")
