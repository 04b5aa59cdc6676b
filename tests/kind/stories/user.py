"""A user of a story's namespace with the Role of docs/jobs.md, and no other right."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from kind.stories.namespace import StoryNamespace
from support.chart import REPOSITORY
from support.processes import wait_until

ACCOUNT: Final = "user"
IMAGENETCTL: Final = Path(sys.executable).parent / "imagenetctl"


class User:
    """Logs in by a token of a service account, as a notebook in a pod does.

    Attributes:
        kubeconfig: The login.
        folder: Where its commands run.

    Args:
        story: The namespace.
        folder: An empty one.
    """

    def __init__(self, story: StoryNamespace, folder: Path) -> None:
        self._kubectl = kubectl = story.kubectl
        self.folder = folder
        kubectl.create("serviceaccounts", {"metadata": {"name": ACCOUNT}})
        page = (REPOSITORY / "docs" / "jobs.md").read_text()
        role = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
        self.role = role["metadata"]["name"]
        kubectl.apply(role)
        account = f"--serviceaccount={story.name}:{ACCOUNT}"
        kubectl("create", "rolebinding", ACCOUNT, f"--role={self.role}", account)
        configuration = yaml.safe_load(kubectl.kubeconfig.read_text())
        token = kubectl("create", "token", ACCOUNT, "--duration=2h").strip()
        for item in configuration["users"]:
            item["user"] = {"token": token}
        for item in configuration["contexts"]:
            item["context"]["namespace"] = story.name
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(configuration))
        self._name = f"system:serviceaccount:{story.name}:{ACCOUNT}"
        for right in ("patch imagenetjobs.imagenet.dev", "create pods --subresource=portforward"):
            wait_until(partial(self.may, right), f"{ACCOUNT} may {right}")

    def may(self, right: str) -> bool:
        """Whether the API server grants a right: the arguments of `kubectl auth can-i`."""
        asked = ("auth", "can-i", *right.split(), f"--as={self._name}")
        return self._kubectl(*asked, check=False).startswith("yes")

    def imagenetctl(self, *arguments: str, code: int = 0) -> str:
        """Run imagenetctl in the namespace; return what it prints, which the story shows too."""
        command = [str(IMAGENETCTL), *arguments, "--namespace", self._kubectl.namespace]
        print(f"$ imagenetctl {' '.join(arguments)}", flush=True)
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        print(ended.stdout + ended.stderr, flush=True)
        assert ended.returncode == code, (arguments, ended.returncode, ended.stderr)
        return ended.stdout + ended.stderr
