"""What the network says of each validation image, from all ranks to rank 0.

The loop records them in the final validation, and `trainer` gathers them. Ranks that evaluate a
share each write it into the attempt's folder: these are too many numbers for a sum over workers.
"""

import logging
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from imagenet_spec.evaluation import CERTAIN
from imagenet_workloads import files
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.train.framework import Outputs
from imagenet_workloads.train.group import Group

_log = logging.getLogger(__name__)

ROW = np.dtype(
    [
        ("label", "<u4"),
        ("prediction", "<u4"),
        ("label_probability", "<u2"),
        ("prediction_probability", "<u2"),
    ]
)
"""Of an image; probabilities are those of evaluation.json."""

Rows = NDArray[np.void]
"""(images,) of `ROW`."""

# Below the attempt's folder, until rank 0 has read them.
_FOLDER = "predictions"


class Predictions:
    """Those of one rank, in the order of its images."""

    def __init__(self) -> None:
        self._batches: list[Rows] = []

    def add(self, outputs: Outputs) -> None:
        """Take a batch, whose labels are classes and whose values are there.

        Of equally likely classes the prediction is the first, as in `Counts.top1`.
        """
        probabilities = outputs.probabilities
        rows = np.empty(len(outputs.labels), ROW)
        rows["label"], rows["prediction"] = outputs.labels, probabilities.argmax(axis=1)
        own = np.arange(len(rows))
        for name in ("label", "prediction"):
            likely = probabilities[own, rows[name]].astype(np.float32)
            # What is no number counts as 0.
            rows[f"{name}_probability"] = np.rint(
                np.nan_to_num(likely, nan=0, posinf=0, neginf=0).clip(0, 1) * CERTAIN
            )
        self._batches.append(rows)

    def rows(self) -> Rows:
        return np.concatenate([np.empty(0, ROW), *self._batches])


def gather(own: Rows, images: int, group: Group, folder: Path) -> Rows | None:
    """Return the predictions of all `images` on rank 0, and None on the others.

    All ranks of a collective group come here. A rank's images follow those of the rank before.
    Without a `folder` that all ranks see, rank 0 has a warning instead of predictions.
    StorageError: this rank's part cannot be written.
    """
    if not group.collective or group.workers == 1:
        return own if group.rank == 0 else None
    parts = [folder / _FOLDER / f"rank-{rank:05}" for rank in range(group.workers)]
    if group.rank != 0:
        files.make_output_folder(folder / _FOLDER)
        files.write_output(parts[group.rank], lambda path: path.write_bytes(own.tobytes()))
    group.wait_for_all()
    if group.rank != 0:
        return None
    try:
        rows = np.concatenate(
            [own, *(np.frombuffer(files.read_bytes(part), ROW) for part in parts[1:])]
        )
    except (OSError, ValueError, WorkloadError) as error:
        _log.warning(
            "evaluation.json is left out: the predictions of a worker are missing: %s", error
        )
        return None
    finally:
        files.remove_folder(folder / _FOLDER, ignore_errors=True)
    if len(rows) != images:
        _log.warning("evaluation.json is left out: %d predictions of %d images", len(rows), images)
        return None
    return rows
