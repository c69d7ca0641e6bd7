"""The Java programs: found, and their version checked."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holter.infra.errors import MissingTool

MIN_JAVA = 17
_INSTALL_JDK = (
    "install a JDK 17 or later (Debian: `apt install openjdk-17-jdk-headless`, macOS: `brew install openjdk@17`)"
)
_INSTALL_MAVEN = "install Maven 3.8 or later (Debian: `apt install maven`, macOS: `brew install maven`)"


def find_java(environ: Mapping[str, str]) -> str:
    """The ``java`` of ``JAVA_HOME``, else of the path.

    Raises:
        MissingTool: there is none, or it is too old.
    """
    home = environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environ.get("PATH"))
    if not java or not Path(java).exists():
        raise MissingTool(f"no java found: {_INSTALL_JDK}")
    version = java_version(java)
    if version < MIN_JAVA:
        raise MissingTool(f"{java} is Java {version}: {_INSTALL_JDK}")
    return java


def find_maven(environ: Mapping[str, str]) -> str:
    """Raises:
    MissingTool: Maven or a Java compiler is missing.
    """
    maven = shutil.which("mvn", path=environ.get("PATH"))
    if maven is None:
        raise MissingTool(f"no mvn found: {_INSTALL_MAVEN}")
    java = Path(find_java(environ)).resolve()
    if not (java.parent / "javac").exists():
        raise MissingTool(f"{java} has no compiler beside it: {_INSTALL_JDK}")
    return maven


def java_version(java: str) -> int:
    """The feature version of a ``java`` program, 0 where it cannot be told."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return parse_java_version(answer.stderr)


def parse_java_version(text: str) -> int:
    """The feature version in what ``java -version`` prints.

    >>> parse_java_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parse_java_version('java version "1.8.0_402"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else 0
