"""The names of a job's children: deterministic, so that repeating a pass makes nothing twice.

Used by every builder and by `reconcile`, which looks for the same names. How long a job's own name
may be follows from these (`api.names`); each name is checked all the same, because the API server
would refuse a wrong one only after the status has promised it.
"""

from __future__ import annotations

import re

from imagenet_operator.api.names import DNS_LABEL, LABEL_MAXIMUM

CONTAINER = "main"
"""The container of every pod that runs the program; always a pod's first."""

SCHEDULING_GATE = "training.imagenet.dev/gang"
"""The gate that pods of an attempt carry under `gang: Wait`, until all of them fit."""

_LABEL = re.compile(DNS_LABEL)


def preparation_job(job_name: str, role: str) -> str:
    """Return the name of the Job that indexes, packs or seals (`role`)."""
    return _checked(f"{job_name}-{role}")


def claim(job_name: str, purpose: str) -> str:
    """Return the name of the claim that is made for the dataset or the output (`purpose`)."""
    return _checked(f"{job_name}-{purpose}")


def preparation(job_name: str) -> str:
    """Return the name of the NetworkPolicy of the pods that index, pack and seal."""
    return _checked(f"{job_name}-preparation")


def service(job_name: str, attempt: int) -> str:
    """Return the name of an attempt's headless Service, by which its pods address each other.

    The other kinds of which an attempt has one object each go by it as well.
    """
    return _checked(f"{job_name}-r{attempt}")


def member(job_name: str, attempt: int, role: str, index: int) -> str:
    """Return the name of one pod of an attempt, which is also its host name."""
    return _checked(f"{job_name}-r{attempt}-{role}-{index}")


def address(job_name: str, attempt: int, role: str, index: int) -> str:
    """Return how the pods of an attempt address one of them: POD.SERVICE."""
    return f"{member(job_name, attempt, role, index)}.{service(job_name, attempt)}"


def output_folder(job_name: str, uid: str) -> str:
    """Return where, on the output volume, everything that this job trains is kept.

    The UID's beginning keeps a job that is deleted and made again out of its predecessor's folder.
    """
    return f"jobs/{job_name}-{uid[:8]}"


def dataset_folder(key: str) -> str:
    """Return where, on the dataset volume, the dataset with this key is kept."""
    return f"datasets/{key}"


def _checked(name: str) -> str:
    if len(name) > LABEL_MAXIMUM or not _LABEL.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name an object: write at most {LABEL_MAXIMUM} of a-z, 0-9 and -, "
            "beginning with a letter and ending with a letter or digit"
        )
    return name
