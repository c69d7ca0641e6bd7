from __future__ import annotations

from pathlib import Path

import pytest

from holter.infra.errors import MissingTool
from holter.infra.jars import Jars
from holter.infra.java import find_java, find_maven


def test_jars_are_stale_when_their_sources_changed(tmp_path: Path) -> None:
    jars = Jars(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "pom.xml").write_text("<project/>")
    assert not jars.are_current()
    for name in ("kafka/kafka_2.13.jar", "flink/a.jar", "flink/b.jar"):
        path = tmp_path / "target" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert not jars.are_current()
    jars.mark_current()
    assert jars.are_current()
    (tmp_path / "src" / "A.java").write_text("class A {}")
    assert not jars.are_current()


def test_a_missing_java_or_maven_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="install a JDK 17"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(MissingTool, match="install a JDK 17"):
        find_java({"JAVA_HOME": str(tmp_path)})
    with pytest.raises(MissingTool, match="install Maven"):
        find_maven({"PATH": str(tmp_path)})


def test_an_old_java_is_refused(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.1\"' >&2\n")
    java.chmod(0o755)
    with pytest.raises(MissingTool, match="is Java 11: install a JDK 17"):
        find_java({"PATH": f"{tmp_path}:/bin"})
