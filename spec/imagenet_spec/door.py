"""What imagenet-door and its clients say to each other, over HTTP/1.1 on 127.0.0.1 of a pod.

Paths of files are relative to the folder that is served; `path` in a query has one. Answers are
JSON. Some take long: those are lines of JSON (`LINES`), with an empty line every `BLANK_SECONDS`
while there is nothing to say. An error is an object with `error`, a sentence, and `reason`; it is
the whole answer with a status of 400 or more, or a line.

    GET  /volume            {"free": BYTES, "writable": BOOL}
    GET  /files?path=       lines: {"path", "size"} of each file below, {"path", "leftOut": WHY} of
                            what is no file to send, last {"end": true}
    GET  /file?path=        the bytes of a file; one Range is understood
    POST /read              ["PATH", …], at most BATCH_FILES: frames of the files in this order
    POST /sums              [{"path", "length", "partial"}, …]: lines {"path", "size", "sha256"};
                            `length` and `partial` are optional: the sum is of so many bytes at the
                            beginning, or of the upload so far

and of a door that is writable:

    GET  /partial?path=     {"received": BYTES} of an upload so far
    PUT  /partial?path=&offset=    the body goes to the upload from this offset on;
                            {"received": BYTES}
    POST /finish?path=&size=&sha256=    lines, the last {"sha256"}; the file is there from then on
    POST /write             frames of whole files, at most BATCH_FILES; {"written": NUMBER}

A frame is a line {"path", "size", "sha256"} and, after it, as many bytes as `size` says; or a line
with an error, and no bytes. Its file has at most SMALL_BYTES, and a body PIECE_BYTES.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

VOLUME: Final = "/volume"
FILES: Final = "/files"
FILE: Final = "/file"
READ: Final = "/read"
SUMS: Final = "/sums"
PARTIAL: Final = "/partial"
FINISH: Final = "/finish"
WRITE: Final = "/write"

LINES: Final = "application/x-ndjson"

SMALL_BYTES: Final = 1 << 20
"""A file of this size or less is sent whole, together with others."""
BATCH_FILES: Final = 64
"""Files in one request, at most: each may be open until all are there."""
PIECE_BYTES: Final = 16 << 20
"""The body of a request, at most. A cut connection loses as much of an upload."""
LINE_BYTES: Final = 1 << 15
"""No line is longer."""
BLANK_SECONDS: Final = 5.0

Reason = Literal[
    "Invalid", "NotFound", "ReadOnly", "Forbidden", "Busy", "Full", "WrongSum", "Changed", "Failed"
]
"""Why something was not done.

Invalid: a request or a name that is never right. ReadOnly, Forbidden: the door or the volume does
not allow it. Busy: another upload of the same file runs. Changed: a file, or an upload, is not what
it was. Failed: the volume's error.
"""

STATUS: Final[Mapping[Reason, int]] = MappingProxyType(
    dict(zip(get_args(Reason), (400, 404, 403, 403, 423, 507, 422, 409, 500), strict=True))
)
"""The HTTP status of each reason."""
