"""What each strategy has, by its name in a manifest, beside its fields.

The resource and the builders take from it which variables are the operator's and whether attempts
may differ in size; the workloads, by which module of `rendezvous` the members find each other.
"""

from __future__ import annotations

from typing import NamedTuple

_AMONG = ("", "LOCAL_", "CROSS_")


class Strategy(NamedTuple):
    """The descriptor of one strategy.

    Attributes:
        rendezvous: The module of the workloads' package `rendezvous`; "none" for one process.
        is_elastic: Whether its number of workers may differ between attempts: it has several
            workers, which take their steps together.
        library: A library beside the framework that it needs.
        kv_stores: The values of MXNet's `--kv-store` that are this strategy, if it has a field for
            them.
        variables: Environment variables that the operator sets in its members: no template may set
            them, and a local run takes none from its shell. An asterisk matches anything.
        tuning: Other environment variables that its libraries read: a template may set them, but a
            local run takes none from its shell.
    """

    rendezvous: str
    is_elastic: bool = False
    library: str = ""
    kv_stores: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    tuning: tuple[str, ...] = ()


STRATEGIES: dict[str, Strategy] = {
    "parameterServer": Strategy(
        "dmlc",
        is_elastic=True,
        kv_stores=("dist_sync", "dist_device_sync", "dist_async"),
        variables=("DMLC_*", "PORT"),
        tuning=("PS_*",),
    ),
    "single": Strategy("none", kv_stores=("local", "device", "nccl")),
    "horovod": Strategy(
        "horovod",
        is_elastic=True,
        library="horovod",
        variables=(
            "HOROVOD_CONTROLLER",
            "HOROVOD_CPU_OPERATIONS",
            "HOROVOD_GLOO_RENDEZVOUS_*",
            "HOROVOD_HOSTNAME",
            *(f"HOROVOD_{among}{what}" for among in _AMONG for what in ("RANK", "SIZE")),
        ),
        tuning=("HOROVOD_*", "NCCL_*"),
    ),
    "mirrored": Strategy("none"),
    "multiWorkerMirrored": Strategy("tf_config", is_elastic=True, variables=("TF_CONFIG",)),
    "distributedDataParallel": Strategy(
        "ddp",
        is_elastic=True,
        variables=(
            *("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"),
            *("GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
        ),
        tuning=("GLOO_*", "NCCL_*", "TORCH_*"),
    ),
}


def variables() -> tuple[str, ...]:
    """Return the patterns of variables that the operator sets in members of any strategy."""
    return tuple(name for strategy in STRATEGIES.values() for name in strategy.variables)


def tuning() -> tuple[str, ...]:
    """Return the patterns of other variables that the libraries of any strategy read."""
    return tuple(name for strategy in STRATEGIES.values() for name in strategy.tuning)
