"""Holds a real program where a test wants it: in the moment before it gives a file its name.

Mounted into a pod as `sitecustomize.py`, which Python imports before any program begins. The
variable HOLD_AT is JSON, from a role or ROLE@ATTEMPT to a pattern of such a file's path. Programs
of this project show nothing before it is whole, so there all of the work is done, and none seen.

A held program writes `held-ROLE` to HOLD_FOLDER, with the names of its pod and the file. It
continues when `release`, `release-ROLE` or `release-FILE` exists. Its other threads go on all the
while: a worker that is held before a checkpoint trains up to the next one.
"""

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

_ROLE = os.environ.get("IMAGENET_ROLE", "")
_PATTERNS = json.loads(os.environ.get("HOLD_AT", "{}"))
_PATTERN = _PATTERNS.get(
    f"{_ROLE}@{os.environ.get('IMAGENET_ATTEMPT', '')}", _PATTERNS.get(_ROLE, "")
)


def hold(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "os.rename" or not re.search(_PATTERN, os.fsdecode(arguments[1])):
        return
    name = Path(os.fsdecode(arguments[1])).name
    folder = Path(os.environ["HOLD_FOLDER"])
    (folder / f"held-{_ROLE}").write_text(f"{os.environ['POD_NAME']} {name}")
    released = [folder / f"release{suffix}" for suffix in ("", f"-{_ROLE}", f"-{name}")]
    while not any(path.exists() for path in released):
        time.sleep(0.01)


if _PATTERN:
    sys.addaudithook(hold)
