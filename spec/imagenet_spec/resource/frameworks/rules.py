"""The rules of one framework beside those that follow from its descriptor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from imagenet_spec.rules import Rule


@dataclass(frozen=True)
class FrameworkRules:
    """What one framework refuses.

    Attributes:
        training: Rules for `spec.training`. They apply to this framework alone, so they need not
            compare its name.
        contradictions: Yields what is wrong with `spec.training` and its extraArgs (value by
            option), and what to write instead. Each option by itself is right.
    """

    training: tuple[Rule, ...] = ()
    contradictions: Callable[[Any, Mapping[str, str]], Iterable[tuple[str, str]]] = (
        lambda training, given: ()
    )
