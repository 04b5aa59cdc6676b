"""Integer sums for the mean and standard deviation of a split's colours.

Integer sums do not depend on the order of images, so the result does not depend on threads or
shards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import cv2
import numpy as np

from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.codecs.codec import Pixels

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class ChannelStatistics:
    """Sums over sampled pixels of images, for red, green and blue.

    Attributes:
        points: The number of pixels.
        sums: The sums of their values, 0 to 255.
        squares: The sums of the values' squares.
    """

    points: int = 0
    sums: Triple = (0, 0, 0)
    squares: Triple = (0, 0, 0)

    @classmethod
    def of(cls, images: Sequence[Pixels]) -> Self:
        """Return the sums over the pixels of images, each height x width x RGB."""
        if not images:
            return cls()
        points = np.concatenate([pixels.reshape(-1, 1, 3) for pixels in images])
        # OpenCV sums in doubles, which are exact for integers of this size.
        red, green, blue, _ = cv2.sumElems(points)
        squares = cv2.multiply(points, points, dtype=cv2.CV_32F)
        red2, green2, blue2, _ = cv2.sumElems(squares)
        sums, sums2 = (int(red), int(green), int(blue)), (int(red2), int(green2), int(blue2))
        return cls(len(points), sums, sums2)

    def __add__(self, other: "ChannelStatistics") -> "ChannelStatistics":
        return ChannelStatistics(
            self.points + other.points,
            _added(self.sums, other.sums),
            _added(self.squares, other.squares),
        )

    def mean(self) -> tuple[float, float, float]:
        """The mean of each colour; 0 without pixels."""
        red, green, blue = (value / max(1, self.points) for value in self.sums)
        return red, green, blue

    def std(self) -> tuple[float, float, float]:
        """The standard deviation of each colour."""
        # Integers up to the root: the difference of two large floats would lose digits.
        red, green, blue = (
            math.sqrt(self.points * square - value * value) / max(1, self.points)
            for value, square in zip(self.sums, self.squares, strict=True)
        )
        return red, green, blue

    def to_document(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"points": self.points, "sums": list(self.sums), "squares": list(self.squares)}

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        """Parse the result of `to_document`.

        Raises:
            InputError: A field is missing or invalid.
        """
        return cls(fields.integer("points"), _triple(fields, "sums"), _triple(fields, "squares"))


def _added(one: Triple, other: Triple) -> Triple:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _triple(fields: Fields, name: str) -> Triple:
    values = fields.integers(name)
    if len(values) != 3:
        raise fields.wrong(name, "must be three whole numbers, one a colour")
    return values[0], values[1], values[2]
