"""The rendezvous of a worker with its peers before the framework starts: one module each.

`find` takes the module of a strategy. Each module has `find`, which reads the environment;
VARIABLE, the variable that identifies a process with peers, or None; and `local_members`, the
processes of a training on one machine. No framework is imported, so a wait is logged and has a
timeout.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

from imagenet_spec.names import TRAIN_PROGRAM
from imagenet_workloads.errors import InputError

# Returns whether members that the current batch needs are gone, so no checkpoint is possible.
IsHopeless = Callable[[], bool]

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class LocalMember:
    """A process of a training whose members all run on this machine, beside common variables."""

    variables: Mapping[str, str]
    program: str = TRAIN_PROGRAM
    is_worker: bool = True


class Rendezvous(Protocol):
    """The peers of this process, before it has joined them."""

    def wait(self, timeout: float) -> IsHopeless:
        """Return when the framework may start; WorkloadError after `timeout` seconds."""

    def joining(self, timeout: float) -> AbstractContextManager[None]:
        """Watch a block in which the framework waits for its peers, with a timeout."""

    def explain(self, error: Exception) -> str | None:
        """Explain an error of the framework that a lost peer caused; None for any other error."""


def never() -> bool:
    """Return False: a checkpoint is always possible."""
    return False


def number(variables: Mapping[str, str], name: str, least: int, most: int) -> int:
    """Read an integer variable; InputError if it is not an integer in the range."""
    text = variables.get(name, "")
    if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
        raise InputError(f"{name} is {text!r}; write a whole number from {least} to {most}")
    return int(text)


def find(
    option: str, strategy: str, modules: Mapping[str, str], variables: Mapping[str, str]
) -> Rendezvous:
    """Return the rendezvous of this worker, which the environment identifies.

    `modules` has the module of this package for each strategy of the framework. InputError if
    strategy and environment do not match, or a variable is invalid.
    """
    asked, module = f"{option} {strategy}", _module(modules[strategy])
    if module.VARIABLE is None:
        # Without peers, the environment may name none.
        for name in dict.fromkeys(modules.values()):
            variable = _module(name).VARIABLE
            if variable is not None and variables.get(variable):
                fitting = " or ".join(other for other, found in modules.items() if found == name)
                raise InputError(
                    f"{asked}: {variable} is {variables[variable]}, and that needs {fitting}"
                )
    rendezvous: Rendezvous = module.find(asked, variables)
    return rendezvous


def local_members(
    module: str, workers: int, servers: int, free_port: Callable[[], int]
) -> Sequence[LocalMember]:
    """Return the processes of a training on this machine, by the module of its strategy.

    `free_port` returns a port that nothing listens on, another one for each call.
    """
    members: Sequence[LocalMember] = _module(module).local_members(workers, servers, free_port)
    return members


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name}")
