from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from holter.infra.jars import Jars

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def flink_environ(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that runs a Flink mini cluster with our jars in its lib folder."""
    home = Path(sysconfig.get_path("purelib")) / "pyflink"
    folder = tmp_path_factory.mktemp("flink")
    lib = folder / "lib"
    lib.mkdir()
    for jar in (*home.glob("lib/*.jar"), *home.glob("opt/flink-python-*.jar"), *jars.flink):
        (lib / jar.name).symlink_to(jar)
    return {
        **os.environ,
        "VIRTUAL_ENV": sys.prefix,
        "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
        "PYTHONPATH": f"{sysconfig.get_path('purelib')}:{REPOSITORY}",
        "FLINK_HOME": str(home),
        "FLINK_LIB_DIR": str(lib),
        "FLINK_LOG_DIR": str(folder),
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx512m",
    }
