"""How a worker meets the other members before its framework may start: one module a way of meeting.

`find` takes the module that a strategy names. Each module has `find`, which reads from the
environment who this process is, and VARIABLE: the variable that makes a process one of several, or
None for a worker that is alone. No framework is imported, so a wait is logged and can be ended.
"""

import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Protocol

from imagenet_workloads.errors import InputError

# Whether members that the batch in progress needs are gone, so that there can be no checkpoint.
IsHopeless = Callable[[], bool]


class Rendezvous(Protocol):
    """The other members, before this one has joined them."""

    def wait(self, timeout: float) -> IsHopeless:
        """Return when the framework may start, after at most `timeout` seconds.

        Raises:
            WorkloadError: the time is over.
        """

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Within the block the framework waits for the others, where only a watch can end it."""

    def explain(self, error: Exception) -> str | None:
        """Say what an error of the framework means for the others; None where it is its own."""


def never() -> bool:
    """Have hope for a checkpoint in any case."""
    return False


def number(variables: Mapping[str, str], name: str, least: int, most: int) -> int:
    """Read a variable that is a whole number.

    Raises:
        InputError: it is none, or outside of the range.
    """
    text = variables.get(name, "")
    if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
        raise InputError(f"{name} is {text!r}; write a whole number from {least} to {most}")
    return int(text)


def find(
    option: str, strategy: str, modules: Mapping[str, str], variables: Mapping[str, str]
) -> Rendezvous:
    """Give the rendezvous of this worker.

    Args:
        option: that names the strategy on the command line, for messages.
        strategy: its value.
        modules: the module of this package for each strategy that the framework has.
        variables: the environment, which says who this worker is.

    Raises:
        InputError: strategy and environment do not fit, or a variable is wrong.
    """
    asked, module = f"{option} {strategy}", _module(modules[strategy])
    if module.VARIABLE is None:
        _refuse_others(asked, modules, variables)
    rendezvous: Rendezvous = module.find(asked, variables)
    return rendezvous


def _refuse_others(asked: str, modules: Mapping[str, str], variables: Mapping[str, str]) -> None:
    """Refuse to train alone where the environment names other members.

    Raises:
        InputError: it does.
    """
    for name in dict.fromkeys(modules.values()):
        variable = _module(name).VARIABLE
        if variable is not None and variables.get(variable):
            fitting = " or ".join(other for other, found in modules.items() if found == name)
            raise InputError(
                f"{asked}: {variable} is {variables[variable]}, and that needs {fitting}"
            )


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name}")
