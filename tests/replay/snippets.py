"""Short logs in the style of each format, all of the same made-up run of four rows.

Losses 3.5, 3.25, NaN, 3.0 at steps 10, 20, 30, 40; gradient norms 1.5, 1.25, infinity, 1.0 where the format has them.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import NamedTuple

from crc32c import crc32c

STEPS = [10, 20, 30, 40]
LOSSES = [3.5, 3.25, math.nan, 3.0]
GRADS = [1.5, 1.25, math.inf, 1.0]


class Snippet(NamedTuple):
    content: bytes
    format: str
    has_grads: bool = True
    has_steps: bool = True


def _lines(template: str, before: str = "") -> bytes:
    rows = (template.format(step=s, loss=loss, grad=g) for s, loss, g in zip(STEPS, LOSSES, GRADS, strict=True))
    return (before + "".join(rows)).encode()


def _json(value: object, **options: int) -> bytes:
    return json.dumps(value, **options).encode()  # type: ignore[arg-type]


def _objects(names: tuple[str, str, str]) -> list[dict[str, object]]:
    return [dict(zip(names, row, strict=True)) for row in zip(STEPS, LOSSES, GRADS, strict=True)]


def event_file(rows: Mapping[int, Mapping[str, float]], as_tensor: bool = False) -> bytes:
    """A TensorBoard event file of scalars."""
    content = _record(_field(3, b"brain.Event:2"))
    for step, values in rows.items():
        for tag, value in values.items():
            content += _record(_varint(2 << 3) + _varint(step) + _field(5, _field(1, _scalar(tag, value, as_tensor))))
    return content


def _scalar(tag: str, value: float, as_tensor: bool) -> bytes:
    if not as_tensor:
        return _field(1, tag.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", value)
    return _field(1, tag.encode()) + _field(8, _varint(1 << 3) + _varint(1) + _field(5, struct.pack("<f", value)))


def _record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", _masked(length)) + payload + struct.pack("<I", _masked(payload))


def _masked(content: bytes) -> int:
    crc = crc32c(content)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


_TAGGED = {s: {"train/loss": loss, "train/grad_norm": g} for s, loss, g in zip(STEPS, LOSSES, GRADS, strict=True)}
_HISTORY = {"epoch": 1.0, "global_step": 40, "log_history": _objects(("step", "loss", "grad_norm"))}
_BY_STEP = {
    "lm loss": {"start_step": 10, "values": dict(zip(map(str, STEPS), LOSSES, strict=True))},
    "grad norm": {"start_step": 10, "values": dict(zip(map(str, STEPS), GRADS, strict=True))},
}

SNIPPETS = {
    "csv": Snippet(_lines("{step},{loss},{grad}\n", "step,loss,grad_norm\n"), "csv"),
    "tsv": Snippet(_lines("{step}\t{loss}\t{grad}\n", "# made by hand\nglobal_step\ttrain/loss\tgnorm\n"), "csv"),
    "wandb chart": Snippet(
        _lines('{step},"{loss}",0.5,9.5,{grad}\n',
               '"Step","a-1 - train/loss","a-1 - train/loss__MIN","a-1 - train/loss__MAX","a-1 - grad_norm"\n'),
        "csv",
    ),
    "wandb history": Snippet(
        b"\n".join(_json({"_step": s, "_runtime": 1.5, **values}) for s, values in _TAGGED.items()) + b"\n", "jsonl"
    ),
    "jsonl": Snippet(
        b"\n".join(_json(row) for row in _objects(("current_steps", "loss", "grad_norm"))) + b"\n", "jsonl"
    ),
    "trainer_state": Snippet(_json(_HISTORY, indent=2), "trainer-state"),
    "list of objects": Snippet(_json(_objects(("iteration", "train_loss", "total_grad_norm")), indent=1), "json"),
    "columns": Snippet(_json({"run": {"steps": STEPS, "losses": LOSSES, "grad_norms": GRADS, "val": [3.0]}}), "json"),
    "values by step": Snippet(_json(_BY_STEP, indent=4), "json"),
    "tensorboard": Snippet(event_file(_TAGGED), "tensorboard"),
    "tensorboard tensors": Snippet(event_file(_TAGGED, as_tensor=True), "tensorboard"),
    "mllog": Snippet(
        b":::MLLOG {\"key\": \"seed\", \"value\": 7, \"metadata\": {\"lineno\": 3}}\n"
        + b"".join(
            b"0: :::MLLOG " + _json({"key": "tracked_stats", "value": {"train_loss": loss, "grad_norm": g},
                                     "metadata": {"step": float(s)}}) + b"\n"
            for s, loss, g in zip(STEPS, LOSSES, GRADS, strict=True)
        ),
        "mllog",
    ),
    "llm.c": Snippet(_lines("s:{step} trl:{loss} lr:0.000010 norm:{grad}\n"), "llm.c"),
    "build-nanogpt": Snippet(_lines("{step} train {loss}\n", "0 hella 0.2487\n"), "build-nanogpt", has_grads=False),
    "megatron": Snippet(
        _lines(" [2030-01-02 03:04:05] iteration {step:8d}/    1000 | consumed samples: 512 | elapsed time per "
               "iteration (ms): 81.3 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {grad:.3f} |\n",
               "using world size: 8\n  lr ................. 0.0001\n"),
        "megatron",
    ),
    "deepspeed": Snippet(
        _lines("[2030-01-02 03:04:05,006] [INFO] [logging.py:96:log_dist] [Rank 0] step=7, skipped=0, lr=[1e-05], "
               "mom=[(0.9, 0.95)]\nepoch: 0|step: {step}|ppo_ep: 1|act_loss: {loss}|cri_loss: 0.5\n"),
        "deepspeed", has_grads=False,
    ),
    "trainer console": Snippet(
        _lines(" 10%|#         | {step}/400 [00:05<01:00]{{'loss': {loss}, 'grad_norm': {grad}, 'epoch': 0.1}}\n"),
        "trainer-console", has_steps=False,
    ),
    "nanoGPT": Snippet(
        _lines("iter {step}: loss {loss:.4f}, time 41.20ms, mfu 31.00%\n"), "key-value", has_grads=False
    ),
    "modded-nanogpt": Snippet(
        _lines("step:{step}/400 train_loss:{loss} train_time:31747ms step_avg:nanms\n", "import torch\n"), "key-value",
        has_grads=False,
    ),
    "torchtitan": Snippet(
        _lines("\x1b[32m[rank0]:2030-01-02 03:04:05,006 - root - INFO - step: {step:2d}  loss: {loss:7.4f}  "
               "grad_norm: {grad:7.4f}  tps: 5,230\x1b[39m\n"),
        "key-value",
    ),
    "llm.c console": Snippet(
        _lines("step {step:4d}/400 | loss {loss:.4f} (+1.21z)| norm {grad:.4f} (+0.5z)| lr 1.00e-06 | 310.55 ms\n"),
        "key-value",
    ),
}  # fmt: skip
"""By what writes them."""
