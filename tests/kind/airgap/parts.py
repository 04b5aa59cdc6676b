"""What a cluster without an image registry is made of, and when a part must be made again.

A part is a folder of programs, or of definitions, or a Docker image, made by one script under
`recipes/`. Its key is a hash of everything that its content depends on: the script and the files
that it reads, the versions, the machine's own files that go in, and the keys of the parts it is
made from. `build.py` makes those whose key it has not seen.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AIRGAP = Path(__file__).resolve().parent

# Programs that people and stories run; each is a part by itself.
TOOLS = ("kind", "helm", "kubectl")

_OF_KUBERNETES = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubeadm",
    "kubectl",
)
# What is compiled in one Go module: by part, each program and its package.
MODULE_PROGRAMS: Mapping[str, Mapping[str, str]] = {
    "kubernetes": {name: f"k8s.io/kubernetes/cmd/{name}" for name in _OF_KUBERNETES},
    "etcd": {
        "etcd": "go.etcd.io/etcd/server/v3",
        "etcdctl": "go.etcd.io/etcd/etcdctl/v3",
    },
    "coredns": {"coredns": "./coredns"},
    "local-path-provisioner": {
        "local-path-provisioner": "github.com/rancher/local-path-provisioner"
    },
    "helm": {"helm": "helm.sh/helm/v3/cmd/helm"},
}


@dataclass(frozen=True)
class Part:
    """One thing to build.

    Attributes:
        recipe: The script under `recipes/` that builds it.
        environment: Of the script: versions, and nothing of the machine.
        files: What the script reads beside itself, relative to this folder.
        needs: Names of the parts it is made from.
        machine: Names of the machine's own files that go in.
        is_image: Whether it is a Docker image; otherwise it is a folder of programs.
    """

    name: str
    recipe: str
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    machine: tuple[str, ...] = ()
    is_image: bool = False

    @property
    def variable(self) -> str:
        """What recipes of other parts find this one by, in their environment."""
        return _variable(self.name) + ("_IMAGE" if self.is_image else "")


def read_versions(path: Path = AIRGAP / "versions.toml") -> dict[str, Any]:
    """Return the table of versions."""
    return tomllib.loads(path.read_text())


def parts_of(versions: Mapping[str, Any]) -> dict[str, Part]:
    """Return every part by name, those that others need before them."""
    programs = [
        Part(
            name,
            "program.sh",
            {"PROGRAM_PACKAGE": program["package"], "PROGRAM_VERSION": program["version"]},
        )
        for name, program in versions["programs"].items()
    ]
    controllers = [
        Part(
            name,
            "controller.sh",
            {f"CONTROLLER_{field.upper()}": value for field, value in controller.items()},
        )
        for name, controller in versions["controllers"].items()
    ]
    definitions = {"PROMETHEUS_OPERATOR_VERSION": versions["prometheus-operator"]["version"]}
    others = [
        Part("prometheus-operator", "prometheus-operator.sh", definitions),
        Part("pause", "pause.sh", files=("pause.go",)),
    ]
    every = (*programs, *controllers, *_of_one_module(versions), *others, *_images(versions))
    return {part.name: part for part in every}


def _images(versions: Mapping[str, Any]) -> list[Part]:
    """Return the images that others are built from, and that of the nodes."""
    kubernetes = {"KUBERNETES_VERSION": versions["kubernetes"]["version"]}
    return [
        Part(
            "debian",
            "debian.sh",
            {"DEBIAN_RELEASE": versions["debian"]["release"]},
            is_image=True,
        ),
        Part(
            "python",
            "python.sh",
            files=("python/Dockerfile",),
            needs=("debian",),
            machine=("CERTIFICATES", "PIP_CONFIGURATION"),
            is_image=True,
        ),
        Part(
            "node",
            "node.sh",
            {**kubernetes, "KIND_VERSION": versions["programs"]["kind"]["version"]},
            files=(
                "node/Dockerfile",
                "node/default-storage.yaml",
                "node/provisioner.Dockerfile",
                "node/proxy.Dockerfile",
            ),
            needs=("debian", "kubernetes", "etcd", "pause", "coredns", "local-path-provisioner"),
            is_image=True,
        ),
    ]


def _of_one_module(versions: Mapping[str, Any]) -> list[Part]:
    """Return the module in which programs agree on what they share, and those programs."""
    named = {name: " ".join(programs.values()) for name, programs in MODULE_PROGRAMS.items()}
    required = {_variable(f"{name}-version"): versions[name]["version"] for name in named}
    module = Part(
        "modules",
        "modules.sh",
        {**required, "PACKAGES": " ".join(named.values())},
        files=("coredns.go",),
    )
    # kubectl by itself is for a machine that pulls its nodes' image: the nodes have theirs.
    kubernetes = [
        Part(
            name,
            "kubernetes.sh",
            {"KUBERNETES_VERSION": versions["kubernetes"]["version"], "PACKAGES": packages},
            needs=(module.name,),
        )
        for name, packages in (
            ("kubernetes", named["kubernetes"]),
            ("kubectl", MODULE_PROGRAMS["kubernetes"]["kubectl"]),
        )
    ]
    others = [
        Part(
            name,
            "compile.sh",
            {"PROGRAMS": " ".join(f"{program}={package}" for program, package in table.items())},
            needs=(module.name,),
        )
        for name, table in MODULE_PROGRAMS.items()
        if name != "kubernetes"
    ]
    return [module, *kubernetes, *others]


def with_needs(names: Iterable[str], parts: Mapping[str, Part]) -> list[Part]:
    """Return the named parts and all that they are made from, in an order to build them in."""
    ordered: dict[str, Part] = {}

    def visit(name: str) -> None:
        if name in ordered:
            return
        for needed in parts[name].needs:
            visit(needed)
        ordered[name] = parts[name]

    for name in names:
        visit(name)
    return list(ordered.values())


def keys_of(
    ordered: Iterable[Part],
    read: Callable[[str], bytes],
    machine: Mapping[str, bytes],
    architecture: str,
) -> dict[str, str]:
    """Return the key of each part, given in an order to build them in.

    Args:
        ordered: The parts.
        read: Returns a file's content, by its path relative to this folder.
        machine: Contents of the machine's own files, by name.
        architecture: What the machine's processor runs.
    """
    keys: dict[str, str] = {}
    for part in ordered:
        inputs = {
            "name": part.name,
            "architecture": architecture,
            "environment": dict(part.environment),
            "files": {
                path: _digest(read(path)) for path in (f"recipes/{part.recipe}", *part.files)
            },
            "machine": {name: _digest(machine[name]) for name in part.machine},
            "needs": {name: keys[name] for name in part.needs},
        }
        keys[part.name] = _digest(json.dumps(inputs, sort_keys=True).encode())[:16]
    return keys


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
