"""Clippers by their names."""

from __future__ import annotations

from typing import Any

from holter.producers.torch.clip.adagc import AdaGC
from holter.producers.torch.clip.agc import Agc
from holter.producers.torch.clip.autoclip import AutoClip
from holter.producers.torch.clip.clipper import Clipper
from holter.producers.torch.clip.ema_mad import EmaMad
from holter.producers.torch.clip.globalgc import GlobalGC
from holter.producers.torch.clip.olmo import OlmoClip
from holter.producers.torch.clip.zclip import ZClip

CLIPPERS: dict[str, type[Clipper]] = {
    kind.name: kind for kind in (GlobalGC, Agc, AdaGC, ZClip, EmaMad, OlmoClip, AutoClip)
}


def make(name: str, **options: Any) -> Clipper:
    """The clipper of that name.

    Raises:
        ValueError: there is none, or it does not take an option or its value.

    >>> make("zclip", max_score=2.0).name
    'zclip'
    """
    if name not in CLIPPERS:
        raise ValueError(f"there is no clipper {name!r}; there are {', '.join(CLIPPERS)}")
    try:
        return CLIPPERS[name](**options)
    except TypeError as error:
        raise ValueError(f"clipper {name!r}: {error}") from error
