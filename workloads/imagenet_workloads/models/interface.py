"""What `prediction` asks of a loaded model."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class Model(Protocol):
    """A trained network on the CPU.

    Attributes:
        classes: outputs.
        origin: its file, for messages.
    """

    classes: int
    origin: str

    def classify(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Give (images, classes) of (images, channels, height, width), normalised."""
