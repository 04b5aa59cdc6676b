"""Kubernetes resource quantities: ``200Gi``, ``500m``, ``1e9``, as exact numbers.

As in apimachinery's ``pkg/api/resource``: a signed decimal number, then a binary suffix (Ki to Ei),
a decimal suffix (n to E) or an exponent.
"""

from __future__ import annotations

import re
from fractions import Fraction

_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}

POSITIVE_BYTES = r"^([1-9][0-9]*(\.[0-9]+)?|0\.[0-9]*[1-9][0-9]*)([KMGTPE]i|[kMGTPE])?$"
"""The quantities of a volume's size: above zero, without milli-bytes and exponents."""


def parse(text: str | int | float) -> Fraction:
    """Return a quantity as an exact number of its base unit (bytes, cores).

    >>> parse("1.5Ki")
    Fraction(1536, 1)
    >>> parse("250m")
    Fraction(1, 4)

    Raises:
        ValueError: The text is not a quantity; the message has examples.
    """
    match = None if isinstance(text, bool) else _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a quantity, such as 16Gi, 500m or 2")
    number = Fraction(match["number"])
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        return number * Fraction(1024 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return number * _power_of_ten(_DECIMAL[suffix])
    return number * _power_of_ten(int(suffix[1:])) if suffix else number


def _power_of_ten(exponent: int) -> Fraction:
    return Fraction(10**exponent) if exponent >= 0 else Fraction(1, 10**-exponent)
