"""The Flink distribution in an installed apache-flink wheel."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holter.infra.errors import StackError


@dataclass(frozen=True)
class FlinkDistribution:
    """The distribution in an installed apache-flink wheel."""

    home: Path

    @property
    def version(self) -> str:
        text = (self.home / "version.py").read_text()
        match = re.search(r'__version__ = "([^"]+)"', text)
        return match.group(1) if match else "unknown"

    @property
    def jars(self) -> list[Path]:
        """What cluster and client load: flink-python too, so that the parent loads pemja once for all jobs."""
        return [*sorted((self.home / "lib").glob("*.jar")), *(self.home / "opt").glob("flink-python-*.jar")]

    @property
    def jvm_options(self) -> list[str]:
        """The module openings that Flink's own configuration asks for."""
        text = (self.home / "conf" / "config.yaml").read_text()
        return re.findall(r"--add-(?:exports|opens)=\S+", text)


def find_flink() -> FlinkDistribution:
    """Raises:
    StackError: the wheel is not installed.
    """
    spec = importlib.util.find_spec("pyflink")
    if spec is None or spec.origin is None:
        raise StackError("PyFlink is not installed: run `pip install 'holter[flink]'` with Python 3.10 to 3.12")
    return FlinkDistribution(Path(spec.origin).parent)


def link_jars(folder: Path, jars: Sequence[Path]) -> None:
    """Makes a folder of links to these jars and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {jar.name: jar for jar in jars}
    for link in folder.iterdir():
        if link.name not in wanted or not link.exists() or link.resolve() != wanted[link.name].resolve():
            link.unlink()
    for name, jar in wanted.items():
        if not (folder / name).exists():
            (folder / name).symlink_to(jar)
