"""The last lines of a program that failed, before its pod is deleted.

A failed attempt ends with the deletion of its pods, and their logs go with them. So `reconciler`
reads the log of the member that failed first, and adds its last lines as an event to the decision
that ends the attempt. A log that cannot be read delays nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Final

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.status import MemberStatus, Status
from imagenet_operator.clusters.kubernetes.client import ApiError, Client
from imagenet_operator.clusters.kubernetes.objects import POD
from imagenet_operator.manifests import names
from imagenet_operator.reconcile.context import EVENT_MAXIMUM
from imagenet_operator.reconcile.types import Event

LOGGER = logging.getLogger(__name__)

LINES: Final = 20
_READ_BYTES: Final = 65536
"""The API server sends the beginning of the lines if they are longer, so this has room for them."""

_SECONDS: Final = 10.0
"""How long the kubelet of the pod may take to answer."""


def failed_member(before: Status, after: Status) -> MemberStatus | None:
    """Return the member that failed first in an attempt that a new status ends; None if none did.

    Args:
        before: The recorded status.
        after: The new one.
    """
    former, training = before.training, after.training
    if training is None or training.outcome is None:
        return None
    if former is not None and former.attempt == training.attempt and former.outcome is not None:
        return None
    failed = [
        member
        for member in training.members
        if member.phase == "Failed" and member.exit_code not in (None, 0)
    ]
    return min(failed, key=lambda member: (str(member.finished_at), member.name), default=None)


async def read(client: Client, job: ImageNetJob, member: MemberStatus) -> Event | None:
    """Return an event with the last lines of a member's log; None if there are none."""
    path = f"{POD.path(job.metadata.namespace, member.name)}/log"
    query = {"container": names.CONTAINER, "tailLines": str(LINES), "limitBytes": str(_READ_BYTES)}
    try:
        async with asyncio.timeout(_SECONDS):
            text = await client.text(path, **query)
    except (ApiError, TimeoutError) as error:
        LOGGER.info(
            "the log of %s/%s cannot be read: %s", job.metadata.namespace, member.name, error
        )
        return None
    # A progress bar ends its lines with carriage returns.
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()][-LINES:]
    if not lines:
        return None
    words = "\n".join(
        "".join(char if char.isprintable() else "�" for char in line) for line in lines
    )
    head = f"{member.name}, its last lines:\n"
    room = EVENT_MAXIMUM - len(head)
    return Event(
        "Warning", "LastLines", head + (words if len(words) <= room else "…" + words[1 - room :])
    )
