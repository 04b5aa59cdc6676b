"""Checkpoint: where the newest one of a failed job is, and how a new job goes on from it.

A message of a full volume names the checkpoint already, because the worker has looked for it. After
any other failure, the operator knows what the worker of rank 0 last reported.
"""

from __future__ import annotations

from typing import Final

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.status import TrainingStatus
from imagenet_operator.manifests import names, volumes

_FIELD: Final = "checkpoint.initFrom"


def advice(job: ImageNetJob, training: TrainingStatus | None) -> str:
    """Return a sentence about the newest checkpoint; empty if none is known.

    Args:
        job: That has failed.
        training: Its last attempt.
    """
    claim = volumes.output_claim(job)
    if training is None or training.checkpoint_epoch is None or claim is None:
        return ""
    folder = names.output_folder(job.metadata.name, job.metadata.uid)
    return (
        f"the newest checkpoint that the operator knows of, {_when(training.checkpoint_epoch)}, is"
        f" in {folder} of the claim {claim}; a new job with this claim goes on with"
        f" spec.training.{_FIELD}: {folder}"
    )


def added(message: str, sentence: str, maximum: int) -> str:
    """Return a message with the advice, of which nothing is cut.

    Args:
        message: Why the job has failed.
        sentence: The advice; nothing is added if it is empty or if the message has its own.
        maximum: The most characters.
    """
    if not sentence or _FIELD in message:
        return message
    room = maximum - len(sentence) - 2
    kept = message if len(message) <= room else f"{message[: room - 1]}…"
    return f"{kept}; {sentence}"


def _when(epochs: int) -> str:
    if epochs == 0:
        return "in the first epoch"
    return f"after {epochs} epoch" if epochs == 1 else f"after {epochs} epochs"
