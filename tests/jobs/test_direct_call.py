from __future__ import annotations

import ast
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holter.jobs.direct_call import answer_directly


class OneInputFunctionOperation:
    """Opens its functions and calls them as PyFlink's class of this name does."""

    __module__ = "pyflink.fn_execution.embedded.operations"

    def __init__(self, *functions: Callable[[], bool]) -> None:
        self._operations = functions

    def open(self) -> list[bool]:
        return [function() for function in self._operations]

    def process_element(self, record: Any) -> Iterator[bytes]:
        yield b"the long way"


def shout(frame: bytes) -> Iterable[bytes]:
    return [frame.upper()] if frame else ()


def answering() -> bool:
    return answer_directly(shout)


def test_function_answers_with_the_frames_of_records() -> None:
    operation = OneInputFunctionOperation(answering)
    assert operation.open() == [True]
    assert list(operation.process_element((0, ("key", b"frame")))) == [b"FRAME"]
    assert list(operation.process_element((0, ("key", b"")))) == []


def test_chained_functions_go_the_long_way() -> None:
    operation = OneInputFunctionOperation(answering, answering)
    assert operation.open() == [False, False]
    assert list(operation.process_element((0, ("key", b"frame")))) == [b"the long way"]


def test_other_runtimes_go_the_long_way() -> None:
    assert not answering()


def test_pyflink_still_has_what_this_leans_on() -> None:
    path = Path(sysconfig.get_path("purelib")) / "pyflink" / "fn_execution" / "embedded" / "operations.py"
    if not path.exists():
        pytest.skip("pyflink is not installed")
    classes = {
        node.name: ast.unparse(node) for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)
    }
    assert "def process_element(self, value)" in classes["OneInputFunctionOperation"]
    assert "self._operations = operations" in classes["FunctionOperation"]
