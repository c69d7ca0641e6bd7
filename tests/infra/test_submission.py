from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from holter.infra.code_archive import write_code_archive
from holter.infra.deployment import Deployment
from holter.infra.errors import StackError
from holter.infra.flink_distribution import FlinkDistribution
from holter.infra.flink_submit import Restore, Submission, flink_command, reasons
from holter.infra.jobs import job_and_prefix, name_on_cluster, next_issuer_epoch
from holter.infra.restore_points import kept_name, newest_restore
from holter.infra.settings import HomeLayout


def submission(restore: Restore | None = None, code: Path | None = None) -> Submission:
    return Submission(
        jobmanager="flink:8081",
        script=Path("/jobs/watch.py"),
        arguments=["--prefix", ""],
        options={"a.b": "0 ms"},
        python="/here/python",
        worker_python="/there/python",
        restore=restore,
        code=code,
    )


def test_the_real_flink_run_is_called_detached() -> None:
    command = flink_command(FlinkDistribution(Path("/flink")), submission())
    assert command[:5] == ["/flink/bin/flink", "run", "-d", "-m", "flink:8081"]
    assert "-Da.b=0 ms" in command
    assert command[-4:] == ["-py", "/jobs/watch.py", "--prefix", ""]
    assert "pipeline.jars" not in " ".join(command)


def test_a_savepoint_stays_and_a_checkpoint_is_claimed() -> None:
    distribution = FlinkDistribution(Path("/flink"))
    kept = flink_command(distribution, submission(Restore("file:/sp", claim=False)))
    claimed = flink_command(distribution, submission(Restore("file:/chk", claim=True)))
    assert kept[kept.index("-s") + 1 :][:3] == ["file:/sp", "-claimMode", "NO_CLAIM"]
    assert claimed[claimed.index("-s") + 1 :][:3] == ["file:/chk", "-claimMode", "CLAIM"]


def test_reasons_leave_the_stack_traces_out() -> None:
    output = (
        "2026-01-01 ERROR Client failed\n"
        "org.apache.flink.client.program.ProgramAbortException: Python process exits with code: 1\n"
        "\tat org.apache.flink.Client.main(Client.java:1)\n"
        "Traceback (most recent call last):\n"
        '  File "watch.py", line 1, in <module>\n'
        "ValueError: no such policy\n"
        "Caused by: java.lang.IllegalStateException: cannot map state\n"
        "Caused by: java.lang.IllegalStateException: cannot map state\n"
    )
    assert reasons(output) == [
        "ValueError: no such policy",
        "Caused by: java.lang.IllegalStateException: cannot map state",
    ]


def test_the_newest_complete_state_is_taken(tmp_path: Path) -> None:
    layout = HomeLayout(tmp_path)
    assert newest_restore(layout, "watch") is None
    older = layout.checkpoints / "watch" / "job1" / "chk-9"
    newer = layout.savepoints / "watch" / "savepoint-1"
    incomplete = layout.checkpoints / "watch" / "job2" / "chk-1"
    for folder in (older, newer, incomplete):
        folder.mkdir(parents=True)
    for seconds, folder in ((1, older), (2, newer)):
        (folder / "_metadata").touch()
        os.utime(folder / "_metadata", (seconds, seconds))
    assert newest_restore(layout, "watch") == Restore(newer.as_uri(), claim=False)
    (newer / "_metadata").unlink()
    assert newest_restore(layout, "watch") == Restore(older.as_uri(), claim=True)


def test_only_jobs_of_the_stacks_own_prefix_share_their_state_with_it() -> None:
    assert kept_name("watch", "team_a", "team_a") == "watch"
    assert kept_name("watch", "team_b", "team_a") != kept_name("watch", "", "team_a") != "watch"
    assert job_and_prefix(name_on_cluster("window_stats", "a_b")) == ("window_stats", "a_b")


def test_the_epoch_rises_also_where_the_clock_went_back() -> None:
    future = next_issuer_epoch(0) + 3_600_000
    assert next_issuer_epoch(future) == future + 1


def test_watch_is_not_deployed_without_a_key() -> None:
    deployment = Deployment("watch", "flink:8081", "kafka:9092", "", 1, "python", "python")
    with pytest.raises(StackError, match="--keys-file"):
        deployment.arguments()


def test_a_reader_is_told_nothing_of_keys() -> None:
    deployment = Deployment("signals", "flink:8081", "kafka:9092", "team_a", 1, "python", "python", keys_file="/k")
    assert deployment.arguments() == ["--bootstrap", "kafka:9092", "--prefix", "team_a"]
    assert name_on_cluster("signals", "team_a") == "holter-signals[team_a]"


def test_the_archive_holds_what_workers_import_and_is_reproducible(tmp_path: Path) -> None:
    first = write_code_archive(tmp_path / "1.zip")
    second = write_code_archive(tmp_path / "2.zip")
    names = zipfile.ZipFile(first).namelist()
    assert {"holter/schemas/topics.py", "holter/pipeline/core/operator.py", "holter/jobs/watch.py"} <= set(names)
    assert not [
        name for name in names if name.startswith(("holter/pipeline/store", "holter/infra", "holter/producers"))
    ]
    assert first.read_bytes() == second.read_bytes()
