"""Exec plugins for tests: a script that really runs, and says what the test has written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

VERSION = "client.authentication.k8s.io/v1"
_SCRIPT = """#!/bin/sh
cd "$FOLDER" || exit 3
echo "$* $KUBERNETES_EXEC_INFO" >> runs
. ./before
cat answer
"""


class Plugin:
    """A plugin beside a kubeconfig, in a folder.

    Args:
        folder: The kubeconfig's.

    Attributes:
        user: The fields of a kubeconfig's user that logs in by it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        script = folder / "plugin"
        script.write_text(_SCRIPT)
        script.chmod(0o755)
        self.before("true")
        self.user: dict[str, Any] = {
            "exec": {
                "apiVersion": VERSION,
                "command": "./plugin",
                "args": ["get-token"],
                "env": [{"name": "FOLDER", "value": str(folder)}],
                "interactiveMode": "IfAvailable",
            }
        }

    def answer(self, lifetime: float | None = None, **status: str) -> None:
        """Answer with a status from now on; it expires after so many seconds."""
        if lifetime is not None:
            expires = datetime.now(UTC) + timedelta(seconds=lifetime)
            status["expirationTimestamp"] = expires.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.print(json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status}))

    def print(self, text: str) -> None:
        """Print a text from now on."""
        (self._folder / "answer").write_text(text)

    def before(self, command: str) -> None:
        """Run a command of the shell before each answer from now on."""
        (self._folder / "before").write_text(f"{command}\n")

    @property
    def runs(self) -> list[str]:
        """The arguments and KUBERNETES_EXEC_INFO of each run."""
        path = self._folder / "runs"
        return path.read_text().splitlines() if path.exists() else []
