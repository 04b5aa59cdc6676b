"""Constraints between fields, in CEL: the API server and `validate` evaluate the same text.

The models have them beside their fields, each with what to say when it is false. No rule takes the
`size()` of a text: the API server counts its characters, the library its bytes. The API server's
CEL: https://kubernetes.io/docs/reference/using-api/cel
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cel import Program


@dataclass(frozen=True)
class Rule:
    """A constraint between fields.

    Attributes:
        cel: The expression of ``x-kubernetes-validations``; true means valid. If it has
            ``oldSelf``, it constrains updates.
        message: The API server's message when it is false.
        field: The camelCase field that is reported, relative to the model (``batchSize``); empty
            for the model itself.
        hint: What to write instead, which only `validate` reports.
        explain: Returns a more detailed message and hint for a model.
    """

    cel: str
    message: str
    field: str = ""
    hint: str | None = None
    explain: Callable[[Any], tuple[str, str | None]] | None = None

    @property
    def is_of_updates(self) -> bool:
        """Whether it compares with the stored object."""
        return "oldSelf" in self.cel


def broken(rules: Iterable[Rule], value: Any, stored: Any = None) -> Iterator[Rule]:
    """Yield the rules that are false, or cannot be evaluated because a field is absent or wrong.

    Args:
        rules: The rules of one model.
        value: Its JSON, as the API server completes it (`schema.completed`).
        stored: The same of the stored object; None if the object is new.
    """
    rules = [rule for rule in rules if stored is not None or not rule.is_of_updates]
    if not rules:
        return
    from cel import Context  # Brings a command line of its own: 0.15 s.

    context = Context({"self": value, "oldSelf": stored}, {"isSorted": _is_sorted})
    for rule in rules:
        try:
            holds = _program(rule.cel).execute(context)
        except (LookupError, TypeError, ArithmeticError):
            holds = False
        if not holds:
            yield rule


def _is_sorted(items: list[Any]) -> bool:
    """Kubernetes' own addition to CEL's functions on lists."""
    return items == sorted(items)


@cache
def _program(expression: str) -> Program:
    from cel import compile as compiled

    return compiled(expression)
