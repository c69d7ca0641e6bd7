"""The code that workers run, as one archive for clusters whose machines lack the package."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path

from holter.infra.errors import StackError

# What jobs may import of Holter; the libraries (msgspec, numpy, scipy) are the cluster's to have.
_PACKAGES = ("schemas", "pipeline.core", "jobs")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_code_archive(path: Path) -> Path:
    """A zip with the folder ``holter``; the same sources give the same bytes.

    Raises:
        StackError: a package is not installed.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(_entries()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), source.read_bytes())
    return path


def _entries() -> Iterator[tuple[str, Path]]:
    pipeline = package_folder("pipeline") / "__init__.py"
    yield "holter/pipeline/__init__.py", pipeline
    for package in _PACKAGES:
        folder = package_folder(package)
        for source in folder.rglob("*.py"):
            yield f"holter/{package.replace('.', '/')}/{source.relative_to(folder).as_posix()}", source


def package_folder(package: str) -> Path:
    """Where a package of Holter lies.

    Raises:
        StackError: it is not installed.
    """
    spec = importlib.util.find_spec(f"holter.{package}")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        return Path(folder).resolve()
    raise StackError(f"holter.{package} is not installed: run `pip install holter`, or `pip install -e .` in a clone")
