"""Whether a new status is worth a write.

Every write is a request to the API server and an event for everybody who watches, so figures that
move with every sample are written only when something else is, or when they moved visibly.
"""

from __future__ import annotations

from imagenet_operator.api.status import Status, TrainingStatus

VISIBLE_SPEED = 0.2
"""The relative change of images per second that is worth a write."""

VISIBLE_ACCURACY = 0.01
"""The change of an accuracy that is."""

_FIGURES = (
    "images_per_second",
    "accuracy",
    "estimated_remaining_seconds",
    "data_wait_share",
    "last_progress_time",
)


def matters_differently(old: Status, new: Status) -> bool:
    """Return whether `new` says something worth writing that `old` does not."""
    if _without_figures(old) != _without_figures(new):
        return True
    if old.training is None or new.training is None:
        return False
    return _moved_visibly(old.training, new.training)


def _without_figures(status: Status) -> Status:
    if status.training is None:
        return status
    training = status.training.model_copy(update=dict.fromkeys(_FIGURES))
    return status.model_copy(update={"training": training})


def _moved_visibly(old: TrainingStatus, new: TrainingStatus) -> bool:
    # That it was heard at all, once an attempt: from then on its silence means something.
    if old.last_progress_time is None and new.last_progress_time is not None:
        return True
    before, after = old.images_per_second, new.images_per_second
    if (before is None) != (after is None):
        return True
    if before is not None and after is not None and abs(after - before) > VISIBLE_SPEED * before:
        return True
    return any(
        (earlier is None) != (later is None)
        or (earlier is not None and later is not None and abs(later - earlier) >= VISIBLE_ACCURACY)
        for earlier, later in zip(_accuracies(old), _accuracies(new), strict=True)
    )


def _accuracies(training: TrainingStatus) -> tuple[float | None, float | None]:
    accuracy = training.accuracy
    return (None, None) if accuracy is None else (accuracy.train, accuracy.validation)
