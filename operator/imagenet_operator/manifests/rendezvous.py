"""The rendezvous of an attempt's members: their ports, and how long they wait for each other.

A member that stops waiting has failed, which counts against backoffLimit. A gang without room is
withdrawn without a charge. So the timeout of a member is longer than that of its gang, and leaves
time for the last member to pull its image.
"""

from __future__ import annotations

from imagenet_spec.resource import ImageNetJob

RENDEZVOUS_PORT = 9091
"""The port of a scheduler, or of Horovod's rendezvous."""

MEMBER_PORT = 9092
"""The port of every other member."""

IMAGE_PULL_SECONDS = 900
"""Time to pull an image of several GB over a slow connection."""


def join_timeout(job: ImageNetJob) -> int:
    """Return the seconds for which a member waits for the others, from its own start."""
    return job.spec.schedule_timeout_seconds + IMAGE_PULL_SECONDS
