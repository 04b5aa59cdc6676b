"""Installs packages into an environment with uv, in a tenth of pip's time.

    .venv/bin/python images/uv_install.py build/tools/bin/uv -e ./workloads

`make install` and its likes run it, with the Python of the environment. uv reads none of pip's
settings: the indexes and the certificate authorities that pip would use are given to it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

# What uv calls a setting of pip.
OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
    "cert": "--cert",
}
# Of one setting, the environment's value wins, then that of `pip install`.
PLACES = ("global", "install", ":env:")
_SETTING = re.compile(rf"^({'|'.join(PLACES)})\.([a-z-]+)='(.*)'$", re.MULTILINE)


def options(settings: str) -> list[str]:
    """Return uv's options for what `pip config list` prints."""
    found = sorted(_SETTING.findall(settings), key=lambda setting: PLACES.index(setting[0]))
    given = {name: value.replace(r"\n", " ").split() for _, name, value in found}
    # pip passes over a folder that does not exist, where uv would end.
    given["find-links"] = [
        place for place in given.get("find-links", ()) if "://" in place or Path(place).exists()
    ]
    return [
        *(["--no-index"] if given.get("no-index") in (["1"], ["true"], ["yes"], ["on"]) else []),
        # As pip does, take the best version of all indexes.
        *(["--index-strategy=unsafe-best-match"] if "extra-index-url" in given else []),
        *(f"{option}={value}" for name, option in OPTIONS.items() for value in given.get(name, ())),
    ]


def main(uv: str, *arguments: str) -> int:
    """Install what `arguments` of `uv pip install` name; return its exit code."""
    pip = [sys.executable, "-m", "pip", "config", "list"]
    settings = subprocess.run(pip, capture_output=True, text=True, check=True).stdout
    command = [uv, "pip", "install", f"--python={sys.executable}", *options(settings), *arguments]
    # Some packages have gigabytes: a server may be slow to begin.
    environment = {"UV_HTTP_TIMEOUT": "180", **os.environ}
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
