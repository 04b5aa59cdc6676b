"""Which of a Horovod job's processes this is, by the variables that Horovod reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from imagenet_workloads.errors import InputError


@dataclass(frozen=True)
class Slot:
    """One process of a Horovod job; a pod runs one or several.

    Attributes:
        rank: HOROVOD_RANK, over all pods.
        size: HOROVOD_SIZE, how many there are.
        local_rank: HOROVOD_LOCAL_RANK, in its pod.
        local_size: HOROVOD_LOCAL_SIZE, how many run there.
        host: HOROVOD_GLOO_RENDEZVOUS_ADDR, a name or an address.
        port: HOROVOD_GLOO_RENDEZVOUS_PORT.
        timeout: HOROVOD_GLOO_TIMEOUT_SECONDS, after which Horovod aborts where a slot is missing.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    host: str
    port: int
    timeout: int

    @classmethod
    def from_mapping(cls, variables: Mapping[str, str]) -> Self | None:
        """Read the environment; None where HOROVOD_RANK is unset, which is a single process.

        Raises:
            InputError: a variable is missing or wrong.
        """
        if not variables.get("HOROVOD_RANK"):
            return None
        host = variables.get("HOROVOD_GLOO_RENDEZVOUS_ADDR", "")
        if not host:
            raise InputError(
                "HOROVOD_RANK is set, so HOROVOD_GLOO_RENDEZVOUS_ADDR must name the rendezvous"
            )
        size = number(variables, "HOROVOD_SIZE", 1, 65536)
        local_size = number(variables, "HOROVOD_LOCAL_SIZE", 1, size)
        return cls(
            rank=number(variables, "HOROVOD_RANK", 0, size - 1),
            size=size,
            local_rank=number(variables, "HOROVOD_LOCAL_RANK", 0, local_size - 1),
            local_size=local_size,
            host=host,
            port=number(variables, "HOROVOD_GLOO_RENDEZVOUS_PORT", 1, 65535),
            timeout=number(
                {"HOROVOD_GLOO_TIMEOUT_SECONDS": "30"} | dict(variables),
                "HOROVOD_GLOO_TIMEOUT_SECONDS",
                1,
                10**9,
            ),
        )


def number(variables: Mapping[str, str], name: str, least: int, most: int) -> int:
    """Read a variable that is a whole number.

    Raises:
        InputError: it is none, or outside of the range.
    """
    text = variables.get(name, "")
    if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
        raise InputError(f"{name} is {text!r}; write a whole number from {least} to {most}")
    return int(text)
