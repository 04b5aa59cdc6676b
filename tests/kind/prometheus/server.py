"""A real Prometheus in a story's namespace, and what it answers.

Debian's has no service discovery by Kubernetes: it reads from a file whom to scrape, and the story
writes there the pods with a port that the chart's PodMonitors name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kind.kubectl import Kubectl

Manifest = dict[str, Any]

IMAGE = "imagenetjob.test/prometheus:bookworm"
NAME = "prometheus"
_PORT = 9090
_FOLDER = "/data"
_TARGETS = "targets.json"
_RULES = "rules.yaml"
_PORTS = ("http", "metrics")
"""The ports that the chart's PodMonitors name, of the operator and of the pods of jobs."""


class Prometheus:
    """One that runs.

    Args:
        kubectl: Of its namespace.
        claim: The name of the claim that it shares with the story.
        folder: What that claim holds, as it is called on this machine.
    """

    def __init__(self, kubectl: Kubectl, claim: str, folder: Path) -> None:
        self._kubectl, self._claim, self._folder = kubectl, claim, folder
        # What has a value for a moment only is asked for later.
        self._started = time.time()

    def start(self, rules: str) -> None:
        """Start it, and wait until it answers.

        Args:
            rules: A file of rules. It does not start if it does not take each of them as it is.
        """
        scrape = {
            "job_name": "pods",
            "honor_labels": True,
            "file_sd_configs": [{"files": [f"{_FOLDER}/{_TARGETS}"], "refresh_interval": "1s"}],
        }
        configuration = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [f"{_FOLDER}/{_RULES}"],
            "scrape_configs": [scrape],
        }
        (self._folder / _RULES).write_text(rules)
        (self._folder / "prometheus.yml").write_text(json.dumps(configuration))
        self._kubectl.apply(self._pod())
        self._kubectl.wait(f"pod/{NAME}", "condition=Ready")

    def scrape(self, pods: Iterable[Manifest]) -> None:
        """Scrape those of these pods that have metrics, and no others any more."""
        targets = [{"targets": [address]} for address in map(_address, pods) if address]
        # It may read at any moment.
        new = self._folder / f".{_TARGETS}"
        new.write_text(json.dumps(targets))
        new.rename(self._folder / _TARGETS)

    def rules(self) -> dict[str, str]:
        """Return how each rule fares, by its name: ok, err, or unknown while it was never tried."""
        answer = json.loads(self._kubectl.raw(f"{self._api}/rules"))
        return {
            rule["name"]: rule["health"]
            for group in answer["data"]["groups"]
            for rule in group["rules"]
        }

    def answer(self, query: str) -> list[Mapping[str, str]]:
        """Return the labels of what a query has had a number for since the beginning."""
        window = {"start": self._started, "end": time.time(), "step": "1s"}
        question = f"{self._api}/query_range?{urlencode({'query': query, **window})}"
        answer = json.loads(self._kubectl.raw(question))
        return [
            series["metric"]
            for series in answer["data"]["result"]
            if any(value != "NaN" for _, value in series["values"])
        ]

    @property
    def _api(self) -> str:
        """Where the API server passes on what it is asked."""
        return f"/api/v1/namespaces/{self._kubectl.namespace}/pods/{NAME}:{_PORT}/proxy/api/v1"

    def _pod(self) -> Manifest:
        files = {"name": "files", "persistentVolumeClaim": {"claimName": self._claim}}
        container = {
            "name": NAME,
            "image": IMAGE,
            "args": [f"--config.file={_FOLDER}/prometheus.yml", "--storage.tsdb.path=/storage"],
            "readinessProbe": {
                "httpGet": {"path": "/-/ready", "port": _PORT},
                "periodSeconds": 1,
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": "files", "mountPath": _FOLDER, "readOnly": True},
                {"name": "storage", "mountPath": "/storage"},
            ],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            # By this label the chart's network policies let it in.
            "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": "prometheus"}},
            "spec": {
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 1000,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
                "volumes": [files, {"name": "storage", "emptyDir": {}}],
            },
        }


def _address(pod: Manifest) -> str | None:
    """Return where a pod's metrics are, by its ports; None if it has none of them, or no address.

    The stories' chart has PodMonitors, so its pods have no annotations.
    """
    ip = pod["status"].get("podIP")
    numbers = [
        port["containerPort"]
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
        if port.get("name") in _PORTS
    ]
    return f"{ip}:{numbers[0]}" if ip and numbers else None
