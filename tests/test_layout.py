"""The tree as ARCHITECTURE says: who imports whom, and what installs."""

from __future__ import annotations

import ast
import functools
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tomllib

ROOT = Path(__file__).parent.parent
FOLDERS = ("schemas", "pipeline", "producers", "jobs", "infra")

ALLOWED = {
    "holter.schemas": ("holter.schemas",),
    "holter.pipeline.core": ("holter.schemas", "holter.pipeline.core"),
    "holter.pipeline.bus": ("holter.schemas", "holter.pipeline.core", "holter.pipeline.bus"),
    "holter.pipeline.store": ("holter.schemas", "holter.pipeline.core", "holter.pipeline.store"),
    "holter.pipeline.loader": (
        "holter.schemas",
        "holter.pipeline.core",
        "holter.pipeline.bus",
        "holter.pipeline.store",
        "holter.pipeline.loader",
    ),
    "holter.pipeline.local": ("holter.schemas", "holter.pipeline.core", "holter.pipeline.bus", "holter.pipeline.local"),
    "holter.pipeline.diagnose": ("holter.schemas", "holter.pipeline.core", "holter.pipeline.diagnose"),
    "holter.pipeline.replay": ("holter.schemas", "holter.pipeline.core", "holter.pipeline.replay"),
    "holter.pipeline.fit": ("holter.schemas", "holter.pipeline.core", "holter.pipeline.replay", "holter.pipeline.fit"),
    "holter.pipeline.cli": ("holter",),
    "holter.producers": ("holter.schemas", "holter.pipeline.core", "holter.pipeline.bus", "holter.producers"),
    "holter.jobs": ("holter.schemas", "holter.pipeline.core", "holter.jobs"),
    "holter.infra": ("holter",),
}
"""What each part may import of Holter; the longest name that fits a module is its part."""

OUTSIDE = {
    "holter.schemas": {"msgspec"},
    "holter.pipeline.core": {"msgspec", "numpy", "scipy", "ddsketch"},
}
FRAMEWORKS = ("holter.producers.integrations", "holter.producers.examples", "holter.infra.bench")
ONLY_IN = {
    "torch": (
        "holter.producers.torch",
        "holter.infra.demo",
        "holter.infra.rescue",
        "holter.infra.stabilisers",
        *FRAMEWORKS,
    ),
    "transformers": FRAMEWORKS,
    "lightning": FRAMEWORKS,
    "accelerate": FRAMEWORKS,
    "deepspeed": FRAMEWORKS,
    "megatron": FRAMEWORKS,
    "jax": FRAMEWORKS,
    "keras": FRAMEWORKS,
    "pyflink": ("holter.jobs",),
}
IMPURE = {"time", "os", "random", "logging", "socket", "threading", "subprocess", "io", "pathlib", "sys"}


def modules() -> Iterator[tuple[str, Path]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(("holter", *(part for part in parts if part != "__init__"))), path


MODULES = dict(modules())


BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
"""Where statements hold statements."""


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All within a node, at any depth; expressions, by far the most nodes, hold none and are not walked through."""
    for block in BLOCKS:
        for child in getattr(node, block, ()):
            yield child
            yield from statements(child)


def imports(path: Path, module: str) -> set[str]:
    found: set[str] = set()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            name = ".".join(part for part in (base, node.module or "") if part)
            found.update(f"{name}.{alias.name}" if f"{name}.{alias.name}" in MODULES else name for alias in node.names)
    return found


@functools.cache
def part_of(module: str) -> str | None:
    fits = [part for part in ALLOWED if module == part or module.startswith(part + ".")]
    return max(fits, key=len, default=None)


def within(name: str, parts: tuple[str, ...]) -> bool:
    return any(name == part or name.startswith(part + ".") for part in parts)


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """What each module imports."""
    return {module: imports(path, module) for module, path in MODULES.items()}


def test_imports_follow_the_layers(imported: dict[str, set[str]]) -> None:
    foreign = [
        f"{module} imports {name}"
        for module, found in imported.items()
        for name in found
        if (part := part_of(module)) and within(name, ("holter",)) and not within(name, ALLOWED[part])
    ]
    assert foreign == []


def test_libraries_are_imported_only_where_they_belong(imported: dict[str, set[str]]) -> None:
    misplaced = [
        f"{module} imports {name}"
        for module, found in imported.items()
        for name in found
        for library, places in ONLY_IN.items()
        if within(name, (library,)) and part_of(module) and not within(module, places)
    ]
    assert misplaced == []


def test_the_core_is_pure(imported: dict[str, set[str]]) -> None:
    impure = []
    for module, found in imported.items():
        part = part_of(module)
        if part in OUTSIDE:
            tops = {name.partition(".")[0] for name in found}
            foreign = tops - set(sys.stdlib_module_names) - OUTSIDE[part] - {"holter"}
            foreign |= tops & IMPURE if part == "holter.pipeline.core" else set()
            impure += [f"{module} imports {name}" for name in foreign]
    assert impure == []


ELSEWHERE = ("holter.jobs", "holter.producers.integrations", "holter.producers.examples")
SLOW = ("holter.infra.bench.loops_without_torch", "holter.infra.bench.torch_loops")
"""They import JAX and all of torch's sharding, which takes seconds."""
OF_TORCH = (*(part for part in ONLY_IN["torch"] if part not in FRAMEWORKS), "holter.infra.acceptance")


def can_be_imported(which: Callable[[str], bool]) -> bool:
    """Whether there are such modules; raises what the import of one raises."""
    found = [module for module in MODULES if which(module) and not module.endswith("__main__")]
    for module in found:
        importlib.import_module(module)
    return bool(found)


def test_every_module_can_be_imported() -> None:
    assert can_be_imported(lambda module: not within(module, (*ELSEWHERE, *OF_TORCH, *SLOW)))


@pytest.mark.torch
def test_every_module_of_torch_can_be_imported() -> None:
    assert can_be_imported(lambda module: within(module, OF_TORCH))


@pytest.mark.frameworks
def test_every_module_that_takes_long_can_be_imported() -> None:
    assert can_be_imported(lambda module: within(module, SLOW))


def test_every_package_is_installed() -> None:
    packages = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    assert packages == found


BARE = """
import importlib.abc, sys
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "kafka", "pyflink", "clickhouse_connect", "chdb", "pyarrow", "numpy"}:
            raise ImportError(f"{name} is not installed")
sys.meta_path.insert(0, Refuse())
import holter.producers
assert "torch" not in sys.modules
run = holter.producers.init(project="p", run="r", mode="disabled")
run.log({"train/loss": 1.0}, step=0)
run.finish()
"""


@pytest.mark.services
def test_producers_import_without_torch_kafka_or_flink() -> None:
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
