from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from holter.infra.deployment import find_job
from holter.infra.errors import StackError
from holter.infra.flink_rest import FlinkRefused, FlinkRest, FlinkUnreachable

pytestmark = pytest.mark.network


def job(job_id: str, name: str, state: str, num_running: int = 2) -> dict[str, Any]:
    return {"jid": job_id, "name": name, "state": state, "start-time": 1, "tasks": {"total": 2, "running": num_running}}


JOBS = {
    "jobs": [
        job("a1", "holter-watch[x]", "CANCELED"),
        job("b2", "holter-watch[x]", "RUNNING"),
        job("c3", "holter-signals[x]", "RESTARTING", num_running=0),
    ]
}


class FakeFlink(ThreadingHTTPServer):
    """Answers each path with what it was given, in turn; the last answer stays."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, list[tuple[int, Any]]] = {"/jobs/overview": [(200, JOBS)]}
        self.bodies: list[Any] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        flink = self.server
        assert isinstance(flink, FakeFlink)
        flink.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer()

    def _answer(self) -> None:
        flink = self.server
        assert isinstance(flink, FakeFlink)
        queue = flink.answers.get(self.path, [(404, {"errors": ["Not found: " + self.path]})])
        status, body = queue.pop(0) if len(queue) > 1 else queue[0]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_live_job_of_a_name_is_found_and_ended_ones_are_not(flink: FakeFlink) -> None:
    rest = FlinkRest(flink.address)
    live = rest.live_job("holter-watch[x]")
    assert live is not None
    assert (live.job_id, live.is_running) == ("b2", True)
    assert rest.live_job("holter-watch[]") is None


def test_a_restarting_job_lives_and_does_not_run(flink: FakeFlink) -> None:
    restarting = FlinkRest(flink.address).live_job("holter-signals[x]")
    assert restarting is not None
    assert not restarting.is_running


@pytest.mark.parametrize("wanted", ["watch", "b2", "holter-watch[x]"])
def test_a_job_is_named_by_verb_id_or_full_name(flink: FakeFlink, wanted: str) -> None:
    assert find_job(FlinkRest(flink.address), wanted, prefix="x").job_id == "b2"


def test_an_ended_job_cannot_be_named(flink: FakeFlink) -> None:
    with pytest.raises(StackError, match="no job 'a1'"):
        find_job(FlinkRest(flink.address), "a1", prefix="x")


def test_stop_waits_for_the_savepoint(flink: FakeFlink) -> None:
    flink.answers["/jobs/b2/stop"] = [(202, {"request-id": "r"})]
    done = {"status": {"id": "COMPLETED"}, "operation": {"location": "file:/sp/1"}}
    flink.answers["/jobs/b2/savepoints/r"] = [(200, {"status": {"id": "IN_PROGRESS"}}), (200, done)]
    assert FlinkRest(flink.address).stop_with_savepoint("b2", "file:///sp", 10) == "file:/sp/1"
    assert flink.bodies == [{"targetDirectory": "file:///sp", "drain": False}]


def test_stop_waits_for_the_tasks_to_run(flink: FakeFlink) -> None:
    starting = {"jobs": [job("b2", "holter-watch[x]", "RUNNING", num_running=1)]}
    flink.answers["/jobs/overview"] = [(200, starting), (200, starting), (200, JOBS)]
    flink.answers["/jobs/b2/stop"] = [(202, {"request-id": "r"})]
    done = {"status": {"id": "COMPLETED"}, "operation": {"location": "file:/sp/1"}}
    flink.answers["/jobs/b2/savepoints/r"] = [(200, done)]
    assert FlinkRest(flink.address).stop_with_savepoint("b2", None, 10) == "file:/sp/1"
    assert len(flink.answers["/jobs/overview"]) == 1


def test_a_failed_savepoint_is_said_with_its_cause(flink: FakeFlink) -> None:
    flink.answers["/jobs/b2/stop"] = [(202, {"request-id": "r"})]
    cause = {"failure-cause": {"stack-trace": "java.io.IOException: disk full\n\tat x"}}
    flink.answers["/jobs/b2/savepoints/r"] = [(200, {"status": {"id": "COMPLETED"}, "operation": cause})]
    with pytest.raises(FlinkRefused, match=r"disk full$"):
        FlinkRest(flink.address).stop_with_savepoint("b2", None, 10)


def test_since_when_all_tasks_run_is_unknown_while_one_does_not(flink: FakeFlink) -> None:
    tasks = [{"status": "RUNNING", "start-time": 7}, {"status": "INITIALIZING", "start-time": 5}]
    flink.answers["/jobs/b2"] = [(200, {"vertices": tasks}), (200, {"vertices": tasks[:1]})]
    rest = FlinkRest(flink.address)
    assert rest.running_since_ms("b2") is None
    assert rest.running_since_ms("b2") == 7


def test_errors_name_the_address_and_the_reason(flink: FakeFlink) -> None:
    with pytest.raises(FlinkRefused, match=r"Not found: /jobs/zz/exceptions"):
        FlinkRest(flink.address).root_exception("zz")
    with pytest.raises(FlinkUnreachable, match=r"no Flink answers at 127\.0\.0\.1:1"):
        FlinkRest("127.0.0.1:1").jobs()
