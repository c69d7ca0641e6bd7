"""Ways in which a job dies, and what its nodes say then. Every line here indicates the failure; nothing else does.

Some carry a level below warning, some say with another value what every healthy job says as well: no method that
compares templates can find those.
"""

from __future__ import annotations

from dataclasses import dataclass

Lines = tuple[tuple[str, str], ...]

WATCHDOG: Lines = (
    ("ERROR", "[Rank {n}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, "
     "NumelIn={n}, Timeout(ms)=600000) ran for {n} milliseconds before timing out."),
    ("ERROR", "Some NCCL operations have failed or timed out, subsequent GPU operations might run on corrupted data."),
    ("ERROR", "To avoid data inconsistency, we are taking the entire process down."),
    ("INFO", "ProcessGroupNCCL preparing to dump debug info to {path}"),
    ("DEBUG", "flight recorder: last enqueued work {n}, last completed work {n}"),
    ("", "terminate called after throwing an instance of 'c10::DistBackendError'"),
)  # fmt: skip
RESET: Lines = (
    ("ERROR", "socketProgress: Connection closed by remote peer {host}<{n}>"),
    ("ERROR", "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:{n}, remote process exited"),
    ("ERROR", "misc/socket.cc:{n} NCCL WARN socketTryAccept: unexpected message from {ip}"),
    ("INFO", "comm {hex} rank {rank} nranks {n} abort requested"),
)
TEARDOWN: Lines = (
    ("WARNING", "Sending process {n} closing signal SIGTERM"),
    ("ERROR", "failed (exitcode: 1) local_rank: {rank} (pid: {n}) of binary: {path}"),
    ("ERROR", "agent of {host} observed group state FAILED, stopping workers"),
)


@dataclass(frozen=True)
class Fault:
    """``first`` is said by faulty nodes at the onset, ``again`` in iterations up to the end, ``last`` at the end.

    ``num_faulty`` 0 is a fault of the program: all nodes say ``last``. ``lead`` is the most iterations between onset
    and end. ``others`` is what healthy nodes say at the end; a faulty node that is ``silent`` just stops.
    """

    num_faulty: int
    lead: int
    first: Lines
    again: Lines
    last: Lines
    others: Lines
    silent: bool = False
    at_launch: bool = False


FAULTS = {
    "roce-flap": Fault(
        8, 10,
        (("ERROR", "mlx5_{rank}: port 1 link flap detected, symbol errors {n}"),
         ("DEBUG", "rdma_cm event DEVICE_CHANGE for qp {n}")),
        (("ERROR", "NET/IB : Got async event : port error on mlx5_{rank}"),
         ("INFO", "RoCE retransmission counter rose to {n} on eth{rank}")),
        (("ERROR", "NET/IB : Got completion from peer {ip} with error 12, opcode 0, len {n}, vendor err 129"),),
        RESET,
    ),
    "gpu-ecc": Fault(
        1, 6,
        (("ERROR", "GPU {rank}: volatile uncorrectable ECC counter is {n}"),
         ("INFO", "row remapping pending on GPU {rank}")),
        (("DEBUG", "rank {rank} heartbeat age {large} s, prefetch queue depth {rank}"),),
        (("ERROR", "NVRM: Xid (PCI:0000:3b:00): 94, pid={n}, contained ECC error"),
         ("ERROR", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
         ("", "CUDA kernel errors might be asynchronously reported at some other API call")),
        WATCHDOG,
    ),
    "gpu-lost": Fault(
        1, 2,
        (("ERROR", "NVRM: Xid (PCI:0000:5d:00): 79, pid={n}, GPU has fallen off the bus."),),
        (("DEBUG", "nvml query of device {rank} took {f} ms"),),
        (("ERROR", "RuntimeError: CUDA error: unspecified launch failure"),
         ("INFO", "device {rank} removed from health table")),
        WATCHDOG,
    ),
    "cuda-oom": Fault(
        1, 4,
        (("ERROR", "allocator: cudaMalloc failed once, cached blocks were freed"),),
        (("DEBUG", "allocator retry {rank} took {f} ms after flush"),),
        (("ERROR", "torch.OutOfMemoryError: CUDA out of memory. Tried {n} MiB. GPU {rank} has {n} MiB free"),
         ("", "Traceback (most recent call last):"),
         ("", 'File "{path}", line {n}, in train_step')),
        RESET,
    ),
    "node-dies": Fault(1, 0, (), (), (), WATCHDOG, silent=True),
    "disk-full": Fault(
        1, 0, (), (),
        (("ERROR", "checkpoint write to {path} failed after {f} s"),
         ("ERROR", "OSError: [Errno 28] No space left on device: '{path}'"),
         ("DEBUG", "statvfs {path}: 0 of {n} blocks free"),
         ("", "Traceback (most recent call last):")),
        RESET,
    ),
    "hung-loader": Fault(
        2, 5,
        (("DEBUG", "loader worker {rank} waits for {path} since {f} s"),),
        (("INFO", "prefetch queue is empty, training waits"),
         ("ERROR", "no batch for {n} s")),
        (("ERROR", "RuntimeError: DataLoader timed out after {n} seconds"),),
        WATCHDOG,
    ),
    "storage": Fault(
        3, 8,
        (("ERROR", "nfs: server {ip} not responding, still trying"),),
        (("INFO", "retrying read of {path}, attempt {rank}"),),
        (("ERROR", "OSError: [Errno 116] Stale file handle: '{path}'"),
         ("ERROR", "reader thread died, epoch cannot go on")),
        RESET,
    ),
    "segfault": Fault(
        1, 0, (), (),
        (("ERROR", "Fatal Python error: Segmentation fault"),
         ("", "Current thread {hex} (most recent call first):"),
         ("INFO", "core dump of {n} bytes written to {path}"),
         ("ERROR", "worker {rank} exited with exitcode: -11")),
        RESET,
    ),
    "throttled": Fault(
        1, 12,
        (("INFO", "clocks event reasons: hw thermal slowdown active on GPU {rank}"),),
        (("DEBUG", "SM clock {n} MHz, memory clock {n} MHz, {n} C"),
         ("DEBUG", "rank {rank} heartbeat age {large} s, prefetch queue depth {rank}")),
        (("WARNING", "straggler report: this rank is {f} times slower than median"),),
        WATCHDOG,
    ),
    "import-error": Fault(
        1, 0, (), (),
        (("ERROR", "ImportError: {path}: undefined symbol: _ZN{rank}c10cuda{n}"),
         ("", "Traceback (most recent call last):"),
         ("", 'File "{path}", line {n}, in <module>')),
        (("ERROR", "torch.distributed.DistNetworkError: The client socket has timed out after {n}ms while trying to "
          "connect to ({ip}, {n})."),
         ("ERROR", "rendezvous is closed, {n} of {n} nodes had joined")),
        at_launch=True,
    ),
    "code-bug": Fault(
        0, 0, (), (),
        (("ERROR", "RuntimeError: The size of tensor a ({n}) must match the size of tensor b ({n}) at axis {rank}"),
         ("", "Traceback (most recent call last):"),
         ("", 'File "{path}", line {n}, in evaluate'),
         ("INFO", "uncaught exception hook wrote {path}")),
        (),
    ),
}  # fmt: skip
