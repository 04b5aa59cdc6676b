"""The Helm chart as Helm renders it, for the tests of what it installs."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "charts" / "imagenet-operator"
RELEASE = "imagenet-operator"
NAMESPACE = "imagenet-operator"
KUBERNETES = "1.34.4"
# What a cluster of this version serves beside what Helm takes for granted.
SERVED = ("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy",)

# Sets of values that between them reach every branch of the templates.
VARIANTS: dict[str, Manifest] = {
    "default": {},
    "everything": {
        "registry": "registry.example/team",
        "imagePullSecrets": [{"name": "registry"}],
        "fullnameOverride": "vision",
        "operator": {
            "nodeSelector": {"pool": "system"},
            "tolerations": [{"key": "system", "operator": "Exists", "effect": "NoSchedule"}],
            "priorityClassName": "system-cluster-critical",
            "podAnnotations": {"team": "vision"},
            "podLabels": {"team": "vision"},
        },
        "serviceAccount": {"annotations": {"team": "vision"}},
        "pods": {"safeToEvict": False, "podDisruptionBudget": True},
        "monitoring": {
            "podMonitor": {
                "enabled": True,
                "interval": "1m",
                "labels": {"release": "prometheus"},
            },
            "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
            "dashboard": {"annotations": {"grafana_folder": "Training"}},
        },
    },
    "two namespaces": {
        "watchNamespaces": ["vision", "research"],
        "monitoring": {"podMonitor": {"enabled": True}},
    },
    "least": {
        "crds": {"install": False},
        "operator": {
            "resources": {"requests": None, "limits": None},
            "networkPolicy": {"enabled": False},
        },
        "serviceAccount": {"create": False},
        "rbac": {"create": False, "aggregate": False},
        "pods": {"networkPolicy": {"enabled": False, "metricsFrom": []}},
        "templates": {"admissionPolicy": {"enabled": False}},
        "tests": {"enabled": False},
        "monitoring": {"dashboard": {"enabled": False}},
    },
}


def helm() -> str:
    """Return the Helm to call: the one on the PATH, or the one that the Makefile has built."""
    built = REPOSITORY / "build" / "tools" / "bin" / "helm"
    found = shutil.which("helm") or (str(built) if built.is_file() else None)
    assert found, "there is no helm: install it, or run `make build/tools/bin/helm`"
    return found


def run(
    values: Manifest, *arguments: str, folder: Path = FOLDER, served: Iterable[str] = SERVED
) -> subprocess.CompletedProcess[str]:
    """Run `helm template` with these values, for a cluster that serves these APIs."""
    command = [helm(), "template", RELEASE, str(folder), "--namespace", NAMESPACE]
    options = ["--kube-version", KUBERNETES, "--values", "-", *arguments]
    return subprocess.run(
        [*command, *options, *(f"--api-versions={api}" for api in served)],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
    )


def notes(values: Manifest, scratch: Path) -> str:
    """Return what Helm would print after an installation: it does so only with a cluster."""
    folder = scratch / "chart"
    shutil.copytree(FOLDER, folder)
    text = (folder / "templates" / "NOTES.txt").read_text()
    (folder / "templates" / "_notes.tpl").write_text(f'{{{{ define "notes" }}}}{text}{{{{ end }}}}')
    (folder / "templates" / "notes.yaml").write_text(
        '{{ dict "notes" (include "notes" .) | toJson }}'
    )
    done = run(values, "--show-only", "templates/notes.yaml", folder=folder)
    assert done.returncode == 0, done.stderr
    printed: str = yaml.safe_load(done.stdout)["notes"]
    return printed


def render(values: Manifest, served: tuple[str, ...] = SERVED) -> list[Manifest]:
    """Return the manifests that the chart installs with these values, as copies of one's own."""
    return copy.deepcopy(_rendered(json.dumps(values), served))


@cache
def _rendered(values: str, served: tuple[str, ...]) -> list[Manifest]:
    done = run(json.loads(values), served=served)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]


def one(manifests: Iterable[Manifest], kind: str, name: str | None = None) -> Manifest:
    """Return the one manifest of a kind, or of a kind and a name."""
    found = [
        item
        for item in manifests
        if item["kind"] == kind and name in (None, item["metadata"]["name"])
    ]
    assert len(found) == 1, f"{len(found)} of {kind} {name or ''}"
    return found[0]


def granted(roles: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], set[str]]:
    """Return the verbs that roles grant, by group and resource."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for role in roles:
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    verbs.setdefault((group, resource), set()).update(rule["verbs"])
    return verbs
