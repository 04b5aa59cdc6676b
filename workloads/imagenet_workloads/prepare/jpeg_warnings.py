"""Corrects what libjpeg only warns of: an unknown JFIF revision, and extra bytes before a marker.

Both are harmless, and libjpeg reports the first warning of an image alone. So the image has to
decode without a warning once they are corrected: truncation is a warning too. `transcode` calls it.
"""

import re
from collections.abc import Callable, Iterator

# More of them are no slip of a program.
_MOST = 8

_JFIF = b"JFIF\0"
_REVISION = re.compile(r"Warning: unknown JFIF revision number \d+\.\d+")
_EXTRANEOUS = re.compile(r"Corrupt JPEG data: (\d+) extraneous bytes before marker 0x([0-9a-f]{2})")


def corrected(data: bytes, warning_of: Callable[[bytes], str | None]) -> bytes | None:
    """Return the JPEG that decodes without a warning; None if it has another kind of warning.

    Args:
        data: a JPEG with a warning.
        warning_of: decodes a JPEG and returns its first warning or error.
    """
    warning = warning_of(data)
    for _ in range(_MOST):
        if warning is None:
            return data
        for candidate in _candidates(data, warning):
            following = warning_of(candidate)
            if following != warning:
                data, warning = candidate, following
                break
        else:
            return None
    return None


def _candidates(data: bytes, warning: str) -> Iterator[bytes]:
    """Yield the JPEG without the cause of a warning; libjpeg does not say which marker it is."""
    if _REVISION.fullmatch(warning):
        place = data.find(_JFIF)
        if place >= 0:
            version = place + len(_JFIF)
            yield data[:version] + b"\x01\x01" + data[version + 2 :]
    elif extraneous := _EXTRANEOUS.fullmatch(warning):
        count, marker = int(extraneous[1]), b"\xff" + bytes.fromhex(extraneous[2])
        place = data.find(marker, 2 + count)
        while place >= 0:
            yield data[: place - count] + data[place:]
            place = data.find(marker, place + 2)
