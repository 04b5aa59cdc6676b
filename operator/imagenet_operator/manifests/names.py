"""The deterministic names of a job's children: a repeated reconcile creates nothing twice.

They limit the length of a job's own name (`fields`). Each name is checked here too: the API server
would reject a wrong one only after the status has recorded it.
"""

from __future__ import annotations

import re

from imagenet_spec import names as shared
from imagenet_spec.resource.fields import DNS_LABEL, LABEL_MAXIMUM

CONTAINER = "main"
"""The container of a pod's program, which is always the first."""

SCHEDULING_GATE = "training.imagenet.dev/gang"
"""The scheduling gate of an attempt's pods under `gang: Wait`, until all of them fit."""

_LABEL = re.compile(DNS_LABEL)


def preparation_job(job_name: str, role: str) -> str:
    """Return the name of the Job that fetches, indexes, packs or seals (`role`)."""
    return _checked(f"{job_name}-{role}")


def claim(job_name: str, purpose: str) -> str:
    """Return the name of the claim that is created for the dataset or the output (`purpose`)."""
    return _checked(f"{job_name}-{purpose}")


def preparation(job_name: str) -> str:
    """Return the name of the NetworkPolicy of the pods of the preparation."""
    return _checked(f"{job_name}-preparation")


def service(job_name: str, attempt: int) -> str:
    """Return the name of an attempt's headless Service, by which its pods address each other.

    Other objects of which an attempt has one have the same name.
    """
    return _checked(f"{job_name}-r{attempt}")


def member(job_name: str, attempt: int, role: str, index: int) -> str:
    """Return the name of one pod of an attempt, which is also its host name."""
    return _checked(f"{job_name}-r{attempt}-{role}-{index}")


def address(job_name: str, attempt: int, role: str, index: int) -> str:
    """Return the host name of a pod for its peers: POD.SERVICE."""
    return f"{member(job_name, attempt, role, index)}.{service(job_name, attempt)}"


def output_folder(job_name: str, uid: str) -> str:
    """Return the folder of all that a job trains, on the output volume.

    A part of the UID keeps a job that is created again out of its predecessor's folder.
    """
    return f"jobs/{job_name}-{uid[:8]}"


def attempt_folder(job_name: str, uid: str, attempt: int) -> str:
    """Return the folder of one attempt's model and logs, on the output volume."""
    return f"{output_folder(job_name, uid)}/{shared.attempt_folder(attempt)}"


def dataset_folder(key: str) -> str:
    """Return the folder of the dataset with this key, on the dataset volume."""
    return f"datasets/{key}"


def _checked(name: str) -> str:
    if len(name) > LABEL_MAXIMUM or not _LABEL.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name an object: write at most {LABEL_MAXIMUM} of a-z, 0-9 and -, "
            "beginning with a letter and ending with a letter or digit"
        )
    return name
