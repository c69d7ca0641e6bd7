"""What every job says: ``(level, text)``, with values in braces that ``values.py`` fills."""

from __future__ import annotations

START = (
    ("INFO", "world size {n}, local rank {rank}, node {host}"),
    ("INFO", "NCCL version {n}.{n}.{n}+cuda{n}.{n}"),
    ("INFO", "NET/IB : Using [{rank}]mlx5_{rank}:1/RoCE [RO]; OOB eth0:{ip}<0>"),
    ("INFO", "setting tensor model-parallel size to {rank}"),
    ("INFO", "loading tokenizer from {path}"),
    ("INFO", "building {word} index: {n} documents, {n} samples"),
    ("WARNING", "NCCL_ASYNC_ERROR_HANDLING is deprecated, use TORCH_NCCL_ASYNC_ERROR_HANDLING instead"),
    ("ERROR", "failed to open libnccl-net.so, using internal network plugin"),
    ("INFO", "number of parameters on (tensor, pipeline) rank ({rank}, {rank}): {n}"),
    ("DEBUG", "allocated {n} MiB of pinned memory at {hex}"),
    ("INFO", "loaded checkpoint shard {path} in {f} s"),
    ("INFO", "time to initialize: {f} s"),
)
ITERATION = (
    ("DEBUG", "fetched batch {n} from {word} in {f} ms"),
    ("DEBUG", "forward done in {f} ms, {rank} microbatches"),
    ("DEBUG", "backward done in {f} ms"),
    ("DEBUG", "all-reduce of {n} buckets took {f} ms"),
    ("DEBUG", "optimizer update took {f} ms, {n} tensors"),
)
SUMMARY = (
    "iteration {i}/ {total} | consumed samples: {n} | elapsed time per iteration (ms): {f} | loss: {f} | norm: {f}"
)
PLAIN_STEP = "step {i} done in {f} ms"
HEARTBEAT = ("DEBUG", "rank {rank} heartbeat age {small} s, prefetch queue depth {rank}")
CHECKPOINT = (
    ("INFO", "saving checkpoint of iteration {i} to {path}"),
    ("INFO", "checkpoint write to {path} finished after {f} s"),
    ("DEBUG", "metadata of {n} tensors written, crc {hash}"),
)
COMMON_NOISE = (
    ("WARNING", "GET {path} returned status 503, retry {rank} of 5"),
    ("ERROR", "error while fetching {path}: connection reset, will retry in {f} s"),
    ("INFO", "garbage collection freed {n} objects in {f} ms"),
    ("WARNING", "slow read of shard {word}-{n}: {f} ms"),
    ("DEBUG", "metrics exporter flushed {n} points"),
    ("ERROR", "metrics exporter: failed to push to {ip}: timeout, buffer kept"),
    ("INFO", "prefetcher switched to shard {word}-{n}"),
    ("WARNING", "grad norm {f} exceeds soft limit {f}"),
    ("DEBUG", "allocator: {n} MiB reserved, {n} MiB active, fragmentation {f}"),
    ("INFO", "NTP offset {f} ms to {ip}"),
    ("WARNING", "tokenizer: {n} unknown bytes in document {hash}"),
    ("ERROR", "Exception ignored in: <function _releaseLock at {hex}>"),
    ("INFO", "profiler window closed after {n} events"),
    ("DEBUG", "cache hit ratio {f} for {word}"),
    ("WARNING", "token throughput {f} below moving average {f}"),
    ("INFO", "rank {rank} reconnected to object store after {f} s"),
    ("DEBUG", "NCCL proxy thread {n} idle for {n} us"),
    ("ERROR", "could not resolve telemetry host, errors are ignored from now on"),
    ("INFO", "rotated trace file {path}"),
    ("WARNING", "document {hash} of {word} is longer than {n} tokens, split"),
)
RARE_SUBJECTS = ("fan", "scheduler", "dns", "license daemon", "quota watcher", "image cache", "audit", "sidecar")
RARE_SAYINGS = (
    ("WARNING", "{subject} reports {n} stale entries"),
    ("INFO", "{subject} restarted by supervisor, pid {n}"),
    ("ERROR", "{subject} probe failed {rank} times, ignoring"),
    ("DEBUG", "{subject} state dump written to {path} by request"),
    ("WARNING", "clock of {subject} moved by {f} s"),
    ("INFO", "{subject}: new configuration {hash} is in effect since {n}"),
    ("ERROR", "unexpected answer of {subject}: {hash}"),
)
"""Of each job only a few: jobs that succeeded have mostly not said them."""
