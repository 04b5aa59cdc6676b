"""Whether a new status is worth a write.

Every write is a request to the API server and an event for every watch. So figures that move with
every sample are written only with another change, or when they moved visibly (`api.figures`).
"""

from __future__ import annotations

from imagenet_operator.api import figures
from imagenet_operator.api.status import Status, TrainingStatus


def matters_differently(old: Status, new: Status) -> bool:
    """Return whether `new` has a change worth a write since `old`."""
    if _without_figures(old) != _without_figures(new):
        return True
    if old.training is None or new.training is None:
        return False
    return _moved_visibly(old.training, new.training)


def _without_figures(status: Status) -> Status:
    if status.training is None:
        return status
    bare = figures.with_values(status.training, {})
    training = bare.model_copy(update={"last_progress_time": None})
    return status.model_copy(update={"training": training})


def _moved_visibly(old: TrainingStatus, new: TrainingStatus) -> bool:
    # The first answer of an attempt: from then on, silence counts as a hang.
    if old.last_progress_time is None and new.last_progress_time is not None:
        return True
    return figures.is_worth_a_write(figures.values(old), figures.values(new))
