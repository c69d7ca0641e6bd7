"""How much of its thread's time Holter takes itself."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any


class OwnTime:
    """Sums the CPU time of the thread inside chosen methods of classes; of calls inside each other the outermost."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self.seconds = 0.0
        self.is_off = False
        """Whether watched methods return at once, as if nobody wore anything."""
        self._clock = clock
        self._is_inside = False

    def watch(self, owner: type, methods: Iterable[str]) -> None:
        """From now on, of all its objects."""
        for name in methods:
            setattr(owner, name, self._timed(getattr(owner, name)))

    def leave_out(self, owner: type, methods: Iterable[str]) -> None:
        """What these take inside watched methods is the training's."""
        for name in methods:
            setattr(owner, name, self._left_out(getattr(owner, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self.is_off:
                return None
            if self._is_inside:
                return method(*args, **kwargs)
            self._is_inside, begun = True, self._clock()
            try:
                return method(*args, **kwargs)
            finally:
                self._is_inside = False
                self.seconds += self._clock() - begun

        return timed

    def _left_out(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def left_out(*args: Any, **kwargs: Any) -> Any:
            if not self._is_inside:
                return method(*args, **kwargs)
            self._is_inside, begun = False, self._clock()
            try:
                return method(*args, **kwargs)
            finally:
                self._is_inside = True
                self.seconds -= self._clock() - begun

        return left_out
