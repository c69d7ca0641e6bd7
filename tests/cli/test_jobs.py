"""What a submitted job goes on from; nothing is submitted here."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holter.infra.deployment import Deployment
from holter.infra.flink_submit import Restore
from holter.infra.settings import HomeLayout
from holter.infra.state import StateFile
from holter.jobs import watch
from holter.pipeline.cli import jobs
from holter.pipeline.cli.main import app
from holter.pipeline.core.detect.learned_model import SHIPPED

STACK, OTHER = "127.0.0.1:8081", "flink:8081"


class Home:
    """A stack that left a checkpoint of its ``watch``, and what was submitted to it since."""

    def __init__(self, root: Path) -> None:
        self.layout = HomeLayout(root)
        self.submitted: list[Deployment] = []
        root.mkdir()
        StateFile(self.layout.state).set(flink_rest=STACK, kafka_bootstrap="127.0.0.1:9092", keys_file="/keys.json")
        self.checkpoint = self.layout.checkpoints / "watch" / "job1" / "chk-9"
        self.checkpoint.mkdir(parents=True)
        (self.checkpoint / "_metadata").touch()

    def submit(self, *arguments: str) -> Result:
        environ = {"HOLTER_HOME": str(self.layout.root), "HOLTER_TOPIC_PREFIX": "", "COLUMNS": "60"}
        return CliRunner().invoke(app, ["jobs", "submit", *arguments], env=environ)

    def deploy(self, deployment: Deployment, _: object) -> str:
        self.submitted.append(deployment)
        return "job-id"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    made = Home(tmp_path / "home")
    monkeypatch.setattr(jobs, "deploy", made.deploy)
    monkeypatch.setattr(jobs, "_built_jars", lambda _: None)
    return made


def test_a_job_of_the_local_stack_goes_on_from_what_it_left(home: Home) -> None:
    answer = home.submit("watch")
    assert (answer.stdout, answer.stderr) == ("job-id\n", f"watch goes on from {home.checkpoint.as_uri()}\n")
    assert home.submitted[0].restore == Restore(home.checkpoint.as_uri(), claim=True)
    assert home.submitted[0].checkpoint_dir == (home.layout.checkpoints / "watch").as_uri()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["watch", "--fresh"], "--fresh"),
        (["signals"], "none is kept here"),
        (["watch", "--prefix", "team_b"], "none is kept here"),
        (["watch", "--jobmanager", OTHER], "--from-savepoint names none"),
    ],
)
def test_a_job_that_starts_without_state_says_why(home: Home, arguments: list[str], why: str) -> None:
    answer = home.submit(*arguments)
    assert answer.stderr == f"{arguments[0]} starts without earlier state ({why})\n"
    assert home.submitted[0].restore is None


def test_a_savepoint_that_is_named_goes_before_the_newest(home: Home) -> None:
    home.submit("watch", "--from-savepoint", "s3://kept/savepoint-1")
    assert home.submitted[0].restore == Restore("s3://kept/savepoint-1", claim=False)


def test_fresh_and_a_savepoint_exclude_each_other(home: Home) -> None:
    answer = home.submit("watch", "--fresh", "--from-savepoint", "s3://kept/savepoint-1")
    assert (answer.exit_code, home.submitted) == (2, [])


def test_the_learned_detector_travels_with_the_job(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    assert home.submit("watch", "--learned", "shipped").exit_code == 0
    assert home.submit("watch").exit_code == 0
    asked, unasked = (deployment.arguments() for deployment in home.submitted)
    at = asked.index("--learned")
    assert watch.learned_model(asked[at + 1]) == SHIPPED
    assert "--learned" not in unasked


def test_what_is_no_learned_detector_is_refused_before_the_job_is_submitted(home: Home) -> None:
    done = home.submit("watch", "--learned", "none.json")
    assert (done.exit_code, home.submitted) == (2, [])
    assert "none.json" in done.stderr
