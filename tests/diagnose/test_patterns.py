"""The shipped signatures say what they should of real lines, and a file adds to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from holter.pipeline.diagnose.errors import BadPatterns
from holter.pipeline.diagnose.patterns import pattern_of, shipped_patterns, with_file

LINES = {
    "cuda-oom": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "host-oom": "Memory cgroup out of memory: Killed process 4242 (python)",
    "gpu-ecc": "NVRM: Xid (PCI:0000:3b:00): 94, pid=4242, name=python, Contained: SM (0x1).",
    "gpu-lost": "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.",
    "nvlink": "NVRM: Xid (PCI:0000:3b:00): 74, pid=4242, NVLink: fatal error detected on link 2",
    "gpu-xid": "NVRM: Xid (PCI:0000:3b:00): 31, pid=4242, name=python, MMU Fault",
    "gpu-throttled": "clocks event reasons: hw thermal slowdown active on GPU 3",
    "nccl-version": "Detected mismatch between collectives on ranks. Rank 3 is running collective ALLREDUCE",
    "ib-link-down": "NET/IB : Got async event : port error on mlx5_3",
    "ib-transport": "NET/IB : Got completion from peer 10.0.0.7<40000> with status=IBV_WC_RETRY_EXC_ERR(12)",
    "disk-full": "OSError: [Errno 28] No space left on device: '/ckpt/7.pt'",
    "storage": "OSError: [Errno 116] Stale file handle: '/data/x'",
    "segfault": "local_rank: 3 exitcode  : -11 (pid: 4242)",
    "hung-loader": "RuntimeError: DataLoader timed out after 600 seconds",
    "nccl-watchdog": "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)",
    "nccl-system": "ncclSystemError: System call (e.g. socket, malloc) or external library call failed",
    "rendezvous": "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
    "cuda-assert": "RuntimeError: CUDA error: device-side assert triggered",
    "python-import": "ModuleNotFoundError: No module named 'apex'",
    "python-file": "FileNotFoundError: [Errno 2] No such file or directory: '/data/x'",
    "python-shape": "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at dimension 1",
    "python-error": "ValueError: loss is NaN",
}


@pytest.mark.parametrize(("name", "line"), LINES.items())
def test_a_line_has_its_signature(name: str, line: str) -> None:
    found = pattern_of(line, shipped_patterns())
    assert found is not None
    assert found.name == name


def test_every_signature_has_a_line_here() -> None:
    assert {each.name for each in shipped_patterns()} == set(LINES)


@pytest.mark.parametrize("line", ["step 12 loss 2.1", "NCCL version 2.27.5", "no errors", "error rate 0.1 %"])
def test_a_usual_line_has_none(line: str) -> None:
    assert pattern_of(line, shipped_patterns()) is None


def test_a_file_comes_first_and_replaces_by_name(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("[segfault]\nmatch = 'core \\d+ dumped'\nmeans = 'ours'\ndo = 'call us'\n")
    patterns = with_file(path, shipped_patterns())
    assert [each.name for each in patterns].count("segfault") == 1
    assert patterns[0].means == "ours"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("= 3", "is no TOML"),
        ("[a]\nmatch = 'x'\n", "needs match, means, do"),
        ("[a]\nmatch = '('\nmeans = ''\ndo = ''\n", "no regular expression"),
        ("[a]\nmatch = 'x'\nmeans = ''\ndo = ''\nlevel = 3\n", "has level"),
        ("a = 3", "needs match, means, do"),
    ],
)
def test_a_bad_file_is_said_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(BadPatterns, match=said) as raised:
        with_file(path, [])
    assert "\n" not in str(raised.value)
