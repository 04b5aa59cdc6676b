"""Writes the tables of the Horovod-on-EC2 tutorial beside this project's own logs.

    training.log        Step Epoch Speed Loss FinLoss LR, a line for each report of the loop
    evaluation.log      step epoch top1 top5 loss checkpoint_time(UTC), a line an epoch

Accuracies are in percent. FinLoss is the loss with the term of weight decay. The time is that of
the evaluation, which belongs to the checkpoint of the same epoch. Rank 0 writes the tables. Imports
no TensorFlow.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from imagenet_spec import events
from imagenet_workloads.errors import output_error

TRAINING, EVALUATION = "training.log", "evaluation.log"
TRAINING_HEAD = "  Step Epoch   Speed   Loss FinLoss      LR"
EVALUATION_HEAD = "  step epoch   top1   top5   loss checkpoint_time(UTC)"


class Tables:
    """Both tables of an attempt."""

    def __init__(
        self,
        folder: Path,
        batches_per_epoch: int,
        workers: int,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._folder, self._batches, self._workers = folder, batches_per_epoch, workers
        self._clock = clock

    def write(self, event: events.Event, penalty: Callable[[], float]) -> None:
        """Add a line for an event that a table shows, with what weight decay adds to the loss.

        StorageError: the line cannot be written.
        """
        if isinstance(event, events.Progress):
            step = event.epoch * self._batches + event.batch
            loss = float("nan") if event.loss is None else event.loss
            speed = event.images_per_second * self._workers
            line = (
                f"{step:6} {step / self._batches:5.1f} {speed:7.1f} {loss:6.3f} "
                f"{loss + penalty():7.3f} {event.learning_rate or 0.0:7.5f}"
            )
            self._append(TRAINING, TRAINING_HEAD, line)
        elif isinstance(event, events.Validated):
            loss = float("nan") if event.loss is None else event.loss
            epoch = event.epoch + 1
            line = (
                f"{epoch * self._batches:6} {epoch:5.1f} {100 * event.top1:6.2f} "
                f"{100 * (event.top5 or 0.0):6.2f} {loss:6.3f}  {self._clock():%Y-%m-%d %H:%M:%S}"
            )
            self._append(EVALUATION, EVALUATION_HEAD, line)

    def _append(self, name: str, head: str, line: str) -> None:
        path = self._folder / name
        try:
            with path.open("a") as file:
                if not file.tell():
                    file.write(head + "\n")
                file.write(line + "\n")
        except OSError as error:
            raise output_error(f"cannot write {path}", error) from error
