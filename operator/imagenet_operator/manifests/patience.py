"""How long the members of an attempt wait for each other before they give up.

A member that gives up has failed, which is charged; one without room is the cluster's affair, and
is not. So nobody may give up before the gang is withdrawn, nor while the member that found room
last still pulls its image.
"""

from __future__ import annotations

from imagenet_operator.api import ImageNetJob

IMAGE_PULL_SECONDS = 900
"""An image of several GB over a slow line."""


def seconds(job: ImageNetJob) -> int:
    """Return for how long a member waits for the others, from its own start."""
    policy = job.spec.run_policy.scheduling_policy
    return policy.schedule_timeout_seconds + IMAGE_PULL_SECONDS


def option(job: ImageNetJob) -> tuple[str, str]:
    """Return the option of `imagenet-train` and `imagenet-slots` that says so."""
    return ("--join-timeout", str(seconds(job)))
