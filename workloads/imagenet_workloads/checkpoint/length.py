"""How long an epoch was when a checkpoint was written, without which its position says little.

Another batch size makes epochs of another length: batch 700 of 5004 is less than batch 620 of 626.
"""

import json
from pathlib import Path

from imagenet_workloads.fields import Fields

LENGTH_FILE = "training.json"


def note_length(folder: Path, batches_per_epoch: int) -> None:
    """Leaves in a checkpoint's folder what its position is compared and translated with."""
    (folder / LENGTH_FILE).write_text(json.dumps({"batchesPerEpoch": batches_per_epoch}))


def read_length(folder: Path) -> int:
    """Gives an epoch's batches.

    Raises:
        InputError: nobody has noted them, or they are damaged.
    """
    return Fields.read(folder / LENGTH_FILE).integer("batchesPerEpoch", minimum=1)
