"""The results of finished arms, kept in a folder so that an interrupted matrix goes on where it was."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec
import torch

from holter.infra.rescue.arm import Arm, ArmResult
from holter.infra.rescue.curve import Curve, joined
from holter.infra.rescue.lockstep import Pace
from holter.infra.rescue.prefix import Plan, read_prefix

_ROOT = Path(__file__).resolve().parents[2]
_JUDGED_BY = ("schemas", "pipeline/core", "pipeline/local", "producers", "infra/rescue", "infra/demo")


class Results:
    """One JSON file an arm, and the prefixes. Results of other code, another torch or another pace lie elsewhere."""

    def __init__(self, root: Path, pace: Pace) -> None:
        self.folder = root / fingerprint(pace)

    def prefix(self, plan: Plan) -> Path:
        return self.folder / "prefixes" / f"{plan.name}-{plan.steps_after}"

    def load(self, arm: Arm) -> ArmResult | None:
        try:
            return msgspec.json.decode(self._path(arm).read_bytes(), type=ArmResult)
        except (OSError, msgspec.MsgspecError):
            return None

    def save(self, result: ArmResult) -> None:
        path = self._path(result.arm)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}.new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1))
        new.replace(path)

    def curve(self, twin: ArmResult) -> Curve:
        """Of an unhurt twin, from the beginning of its run."""
        plan = twin.arm.plan
        return joined(read_prefix(self.prefix(plan)).curve, twin.curve, plan.prefix_steps)

    def forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, arm: Arm) -> Path:
        return self.folder / "arms" / f"{arm.name}-{arm.plan.steps_after}.json"


def fingerprint(pace: Pace) -> str:
    """Of the code that trains and judges, torch and the pace."""
    said = hashlib.sha256(f"{torch.__version__} {pace}".encode())
    for path in _sources():
        said.update(path.read_bytes())
    return said.hexdigest()[:12]


def _sources() -> Iterable[Path]:
    return (path for folder in _JUDGED_BY for path in sorted((_ROOT / folder).rglob("*.py")))
