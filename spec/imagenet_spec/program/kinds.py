"""Readers of single option values: text in, a checked value or a message out.

The message says what to write; argparse puts the option's name before it, and ends the program with
exit code 2.
"""

import math
import re
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any, NamedTuple

from imagenet_spec.names import CHECKSUM

MOST_SIZES = 8
"""Entries of --image-sizes, at most: each may compile the network once more."""

_NUMBER = r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"


class ImageSize(NamedTuple):
    """The size of training images from an epoch on.

    Attributes:
        epoch: the first one of this size, counted from 0.
        size: height and width in pixels.
    """

    epoch: int
    size: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.size}"


class Value:
    """An object that cannot be changed, and equals another one with the same attributes.

    Like a frozen dataclass, for which `dataclasses` would write and compile functions: every
    program of a pod would wait for those of thirty groups of options.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: make another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: make another one")

    def __eq__(self, other: object) -> bool:
        return vars(other) == vars(self) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


class StepDecay(Value):
    """Multiply the learning rate by the factor at the start of each of these epochs."""

    epochs: tuple[int, ...]

    def __init__(self, epochs: tuple[int, ...]) -> None:
        vars(self).update(epochs=epochs)

    def __str__(self) -> str:
        return ",".join(str(epoch) for epoch in self.epochs)


class PolynomialDecay(Value):
    """Let the learning rate fall to zero at the last step, as (1 - done)^power."""

    power: float

    def __init__(self, power: float) -> None:
        vars(self).update(power=power)

    def __str__(self) -> str:
        return f"pow{repr(self.power).removesuffix('.0')}"


class ClassWords(NamedTuple):
    """A class and its words, such as n01440764 and tench."""

    name: str
    words: str

    def __str__(self) -> str:
        return f"{self.name}={self.words}"


Decay = StepDecay | PolynomialDecay


def whole(text: str, lowest: int, highest: int | None = None) -> int:
    """Read a whole number within bounds."""
    # int() takes more than digits ("1_0", " 7", "٣"), and a manifest never means those.
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least {lowest}")
    value = int(text)
    if value < lowest or (highest is not None and value > highest):
        span = f"at least {lowest}" if highest is None else f"from {lowest} to {highest}"
        raise ArgumentTypeError(f"must be {span}, not {text}")
    return value


def count(text: str) -> int:
    """Read a whole number of at least 0."""
    return whole(text, 0)


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    return whole(text, 1)


def port(text: str) -> int:
    """Read the number of a port; 0 is any free one."""
    return whole(text, 0, 65535)


def quality(text: str) -> int:
    """Read a JPEG quality."""
    return whole(text, 1, 100)


def edge(text: str) -> int:
    """Read a length in pixels that a JPEG can have."""
    return whole(text, 1, 16384)


def switch(text: str) -> bool:
    """Read 0 or 1, as MXNet's examples write their switches."""
    if text not in ("0", "1"):
        raise ArgumentTypeError(f"{text!r} is no switch: write 0 or 1")
    return text == "1"


def number(text: str) -> float:
    """Read a finite number."""
    # float() takes more than numbers ("1_0", " 7", "٣", "nan").
    if not re.fullmatch(_NUMBER, text):
        raise ArgumentTypeError(f"{text!r} is not a number")
    value = float(text)
    if not math.isfinite(value):
        raise ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def fraction(text: str) -> float:
    """Read a number from 0 to 1."""
    value = number(text)
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"must be from 0 to 1, not {text}")
    return value


def amount(text: str) -> float:
    """Read a finite number of at least 0."""
    value = number(text)
    if value < 0:
        raise ArgumentTypeError(f"{text} is negative: write 0 or more")
    return value


def amount_above_zero(text: str) -> float:
    """Read a finite number above 0."""
    value = number(text)
    if value <= 0:
        raise ArgumentTypeError(f"{text} is not above 0")
    return value


def image_shape(text: str) -> tuple[int, int, int]:
    """Read channels,height,width; channels are 1 or 3.

    >>> image_shape("3,224,224")
    (3, 224, 224)
    """
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() for part in parts):
        raise ArgumentTypeError(f"{text!r} is not CHANNELS,HEIGHT,WIDTH, such as 3,224,224")
    channels, height, width = (int(part) for part in parts)
    if channels not in (1, 3) or height < 1 or width < 1:
        raise ArgumentTypeError(
            f"{text!r} does not fit: 1 or 3 channels, height and width of at least 1 pixel"
        )
    return channels, height, width


def image_sizes(text: str) -> tuple[ImageSize, ...]:
    """Read EPOCH:PIXELS,…; the first epoch is 0, and epochs rise. An empty text is none.

    >>> [str(one) for one in image_sizes("0:128,6:160")]
    ['0:128', '6:160']
    """
    if not text.strip():
        return ()
    pairs = [part.strip().split(":") for part in text.split(",")]
    if not all(len(pair) == 2 and all(map(str.isdecimal, pair)) for pair in pairs):
        raise ArgumentTypeError(f"{text!r} is not EPOCH:PIXELS,…, such as 0:128,6:160")
    sizes = tuple(ImageSize(int(epoch), int(size)) for epoch, size in pairs)
    epochs = [one.epoch for one in sizes]
    if epochs[0] != 0 or epochs != sorted(set(epochs)):
        raise ArgumentTypeError(f"{text!r} must begin at epoch 0, and epochs must rise")
    if min(one.size for one in sizes) < 1:
        raise ArgumentTypeError(f"{text!r} has a size of 0 pixels: write 1 or more")
    if len(sizes) > MOST_SIZES:
        raise ArgumentTypeError(f"{len(sizes)} sizes are too many: write {MOST_SIZES} at most")
    return sizes


def devices(text: str) -> tuple[int, ...]:
    """Read GPU numbers, `0,1,2`; an empty text is none, the CPU."""
    if not text.strip():
        return ()
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise ArgumentTypeError(f"{text!r} is not a list of GPU numbers, such as 0,1,2")
    numbers = tuple(int(part) for part in parts)
    if len(set(numbers)) != len(numbers):
        raise ArgumentTypeError(f"{text!r} names a GPU twice")
    return numbers


def decay(text: str) -> Decay | None:
    """Read the epochs at which the learning rate falls (`30,60`), or `pow2`; empty is none."""
    if not text.strip():
        return None
    if found := re.fullmatch(r"pow[ -]*(\d+(?:\.\d+)?(?:e-?\d+)?)", text.strip()):
        return PolynomialDecay(float(found[1]))
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise ArgumentTypeError(
            f"{text!r} is neither a list of epochs, such as 30,60, nor a power, such as pow2"
        )
    epochs = tuple(int(part) for part in parts)
    if list(epochs) != sorted(set(epochs)) or epochs[0] < 1:
        raise ArgumentTypeError(f"{text!r} must rise from one epoch to the next, from 1")
    return StepDecay(epochs)


def colour(text: str) -> tuple[float, float, float]:
    """Read three numbers for red, green and blue on the scale of 0 to 255."""
    parts = text.split(",")
    if len(parts) != 3:
        raise ArgumentTypeError(f"{text!r} is not RED,GREEN,BLUE")
    red, green, blue = (number(part.strip()) for part in parts)
    return red, green, blue


def colour_scale(text: str) -> tuple[float, float, float]:
    """Read three divisors for red, green and blue; none may be 0."""
    scale = colour(text)
    if min(scale) <= 0:
        raise ArgumentTypeError(f"{text!r} must be above 0 for each colour")
    return scale


def losses(text: str) -> str:
    """Read the names of losses, with commas between them."""
    if not {name.strip() for name in text.split(",")} - {""} <= {"ce", "nll", "nll_loss"}:
        raise ArgumentTypeError(f"{text!r}: write ce, nll_loss or both with a comma")
    return text


def path(text: str) -> Path:
    """Read a path; an empty one would be the working directory."""
    if not text:
        raise ArgumentTypeError("is empty; give a path")
    return Path(text)


def text(value: str) -> str:
    """Read a text that is not empty."""
    if not value:
        raise ArgumentTypeError("is empty")
    return value


def colour_shape(text: str) -> tuple[int, int, int]:
    """Read `3,H,W`: three channels, height and width in pixels."""
    parts = text.split(",")
    if len(parts) != 3 or parts[0].strip() != "3":
        raise ArgumentTypeError(f"must be 3,HEIGHT,WIDTH as in 3,224,224, not {text!r}")
    return 3, edge(parts[1].strip()), edge(parts[2].strip())


def checksum(text: str) -> str:
    """Read a checksum of a file: sha256:DIGITS or md5:DIGITS."""
    if not re.fullmatch(CHECKSUM, text):
        raise ArgumentTypeError(f"{text!r} is neither sha256:DIGITS nor md5:DIGITS")
    return text


def key(text: str) -> str:
    """Read a dataset's key: the name of a folder, in hexadecimal."""
    if not text or set(text) - set("0123456789abcdef"):
        raise ArgumentTypeError(f"{text!r} is not a key: lower-case hexadecimal digits")
    return text


def endpoint(text: str) -> str:
    """Read the URL of a server; a slash at its end is left out."""
    if not text:
        raise ArgumentTypeError("is empty")
    return text.rstrip("/")


def class_words(text: str) -> ClassWords:
    """Read CLASS=WORDS."""
    name, equals, words = text.partition("=")
    if not name or not equals or not words.strip():
        raise ArgumentTypeError(f"{text!r} is not CLASS=WORDS, such as n01440764=tench")
    return ClassWords(name, words.strip())


def class_pattern(text: str) -> str:
    """Read a regular expression with one group, or one called class."""
    try:
        found = re.compile(text)
    except re.error as error:
        raise ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None
    if not found.groups:
        raise ArgumentTypeError(f"{text!r} has no group; put parentheses around the class")
    return text
