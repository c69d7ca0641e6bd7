"""The jars of broker and cluster, fetched and built by one Maven project; kept until that project changes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holter.infra.code_archive import package_folder
from holter.infra.errors import ComponentFailed, StackError
from holter.infra.java import find_maven
from holter.infra.lock import exclusive
from holter.infra.logs import tail

_BUILD_TIMEOUT_SECONDS = 900


@dataclass(frozen=True)
class Jars:
    """The Maven project and what it leaves in its target folder."""

    project: Path

    @property
    def kafka(self) -> Path:
        return self.project / "target" / "kafka"

    @property
    def flink(self) -> list[Path]:
        """The connector and our own classes: what a Flink cluster needs besides its own distribution."""
        return sorted((self.project / "target" / "flink").glob("*.jar"))

    def are_current(self) -> bool:
        """Whether the jars are there and made of the sources as they are now."""
        built = any(self.kafka.glob("kafka_*.jar")) and len(self.flink) >= 2
        return built and self._stamp.exists() and self._stamp.read_text() == self.sources_digest()

    def sources_digest(self) -> str:
        """Changes whenever the jars have to be built anew."""
        return _digest([self.project / "pom.xml", *sorted((self.project / "src").rglob("*.java"))])

    def build(self, environ: Mapping[str, str], log: Path) -> None:
        """Runs Maven.

        Raises:
            MissingTool: Maven or a JDK is missing.
            ComponentFailed: the build failed.
        """
        command = [find_maven(environ), "-q", "-B", "-f", str(self.project / "pom.xml"), "package"]
        log.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(self.project / "target" / "holter.lock", _BUILD_TIMEOUT_SECONDS, lambda: None):
            if self.are_current():
                return
            with log.open("wb") as output:
                done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                raise ComponentFailed("jars", "could not be fetched and built by Maven", log, tail(log))
            self.mark_current()

    def mark_current(self) -> None:
        """Notes of which sources the jars are made."""
        self._stamp.write_text(self.sources_digest())

    @property
    def _stamp(self) -> Path:
        return self.project / "target" / "holter-sources.sha256"


def find_jars() -> Jars:
    """The Maven project that lies in the installed ``holter.jobs``.

    Raises:
        StackError: that package is not installed.
    """
    return Jars(package_folder("jobs") / "java")


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def main() -> int:
    """Fetches and builds the jars unless they are current; for ``python -m holter.infra.jars``."""
    jars = find_jars()
    if jars.are_current():
        return 0
    print("Maven fetches and builds the jars (once, about 30 s)", file=sys.stderr)
    try:
        jars.build(os.environ, jars.project / "target" / "maven.log")
    except ComponentFailed as failed:
        print("\n".join([*failed.last_lines, str(failed)]), file=sys.stderr)
        return 1
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
