"""Controllers of others on a cluster: each by its own chart, with an image of this machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kind.airgap.build import build
from kind.airgap.parts import read_versions
from kind.cluster import Cluster

_DOCKERFILE = 'FROM scratch\nCOPY manager /manager\nENTRYPOINT ["/manager"]\n'


def image(name: str) -> dict[str, str]:
    """Return the image of a controller, as charts have it."""
    version = read_versions()["controllers"][name]["version"]
    repository = f"imagenetjob.test/{name}"
    return {"repository": repository, "tag": version, "pullPolicy": "IfNotPresent"}


def install(cluster: Cluster, name: str, namespace: str, values: Mapping[str, Any]) -> None:
    """Build a controller where it is missing, install it, and wait until it is ready.

    Args:
        cluster: Where.
        name: Of the part.
        namespace: Which is made for it.
        values: Of its chart.
    """
    folder = Path(build([name])[name])
    tag = "{repository}:{tag}".format_map(image(name))
    subprocess.run(
        ["docker", "build", "--quiet", f"--tag={tag}", "--file=-", str(folder)],
        input=_DOCKERFILE.encode(),
        check=True,
        stdout=subprocess.DEVNULL,
    )
    cluster.load([tag])
    subprocess.run(
        [
            cluster.environment.programs["helm"],
            f"--kubeconfig={cluster.kubeconfig}",
            *("upgrade", "--install", name, str(folder / "chart"), "--values=-"),
            *(f"--namespace={namespace}", "--create-namespace", "--wait", "--timeout=600s"),
        ],
        input=json.dumps(values).encode(),
        check=True,
        stdout=subprocess.DEVNULL,
    )
