"""`status.startErrors`: what keeps pods from starting, set by `policies.start_errors`."""

from __future__ import annotations

from imagenet_operator.api.base import Model
from imagenet_operator.api.fields import Time


class StartErrors(Model):
    """Image and configuration errors that keep pods from starting."""

    since: Time | None = None
    """When the first one was seen, while there is one; for `startDeadlineSeconds`."""

    cleared: Time | None = None
    """When the last one was gone. `progressDeadlineSeconds` and `scheduleTimeoutSeconds` do not
    count the time before."""
