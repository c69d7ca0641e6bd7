"""Runs actions that wait for one another, each as early as possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait


def run_in_order(needs: Mapping[str, Sequence[str]], action: Callable[[str], None]) -> dict[str, Exception]:
    """Calls ``action`` once a name, after those it needs; names that are not keys are taken as done.

    A failed name holds back only those that need it. Returns what was raised, by name. An interrupt comes through
    at once; the process then has to end itself, because the threads of unfinished actions still run.
    """
    waiting = {name: {need for need in required if need in needs} for name, required in needs.items()}
    errors: dict[str, Exception] = {}
    pool = ThreadPoolExecutor(max_workers=max(1, len(needs)))
    running: dict[Future[None], str] = {}
    try:
        while waiting or running:
            for name in [name for name, required in waiting.items() if not required]:
                del waiting[name]
                running[pool.submit(action, name)] = name
            if not running:
                break  # what is left needs something that failed
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                _finish(running.pop(future), future, waiting, errors)
    finally:
        # After an interrupt nobody waits for the actions under way.
        pool.shutdown(wait=False, cancel_futures=True)
    return errors


def _finish(name: str, future: Future[None], waiting: dict[str, set[str]], errors: dict[str, Exception]) -> None:
    error = future.exception()
    if isinstance(error, Exception):
        errors[name] = error
        return
    for required in waiting.values():
        required.discard(name)


def reverse(needs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Who must be gone before each name may go."""
    return {name: [other for other, required in needs.items() if name in required] for name in needs}
