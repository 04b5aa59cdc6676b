"""Constraints between fields, in CEL: the API server and `validate` evaluate the same text.

The models have them beside their fields, each with what to say when it is false. No rule takes the
`size()` of a text: the API server counts its characters, the library its bytes. The API server's
CEL: https://kubernetes.io/docs/reference/using-api/cel
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
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
        return "oldSelf" in self.cel


def broken(rules: Iterable[Rule], value: Any, stored: Any = None) -> Iterator[Rule]:
    """Yield the rules that are false, or cannot be evaluated because a field is absent or wrong.

    `value` is the JSON of the rules' model as the API server completes it (`schema.completed`),
    `stored` the same of the stored object; None if the object is new.
    """
    rules = [rule for rule in rules if stored is not None or not rule.is_of_updates]
    if not rules:
        return
    # `isSorted` is Kubernetes' own addition to CEL's functions on lists.
    context = _cel().Context(
        {"self": value, "oldSelf": stored}, {"isSorted": lambda items: items == sorted(items)}
    )
    for rule in rules:
        try:
            holds = _program(rule.cel).execute(context)
        except (LookupError, TypeError, ArithmeticError):
            holds = False
        if not holds:
            yield rule


@cache
def _program(expression: str) -> Program:
    program: Program = _cel().compile(expression)
    return program


@cache
def _cel() -> Any:
    """Return the library's compiled module alone.

    Its package would import a command line with an editor and colours: half of the time and memory
    that a program needs until it can evaluate a rule.
    """
    package = find_spec("cel")
    assert package is not None
    found = PathFinder.find_spec("cel.cel", package.submodule_search_locations)
    assert found is not None and found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module
