"""A kind cluster of this project's own: made, given images, its nodes stopped and started, deleted.

It has a separate name and kubeconfig, and one folder that all nodes share.
What a killed run has left under the name goes when the next one starts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

from kind.airgap import routes
from kind.airgap.build import cache_folder
from kind.environment import Environment
from kind.kubectl import Kubectl, Manifest

# Where every node, and so every pod with a hostPath volume, finds the folder that all share.
SHARED = "/shared"
# For each step until nodes are ready, which takes a busy machine minutes.
READY_SECONDS = 600
# What runs a node's containers; kubelet's are in that namespace.
_CTR = ("ctr", "--namespace=k8s.io")


def cluster_name() -> str:
    """Return the name of the cluster that this process is about."""
    return os.environ.get("IMAGENET_KIND_CLUSTER", "imagenetjob-test")


@dataclass(frozen=True)
class Cluster:
    """One kind cluster.

    Attributes:
        name: kind's name for it.
        environment: What it is made with.
    """

    name: str
    environment: Environment

    @property
    def folder(self) -> Path:
        """The folder for what belongs to this cluster, gone with it."""
        return cache_folder() / "clusters" / self.name

    @property
    def kubeconfig(self) -> Path:
        """The file by which to reach it."""
        return self.folder / "kubeconfig"

    @property
    def shared(self) -> Path:
        """The folder that is SHARED on every node, as it is called here."""
        return self.folder / "shared"

    @property
    def kubectl(self) -> Kubectl:
        """kubectl for this cluster."""
        return Kubectl(self.environment.programs["kubectl"], self.kubeconfig)

    @property
    def nodes(self) -> list[str]:
        """Names of all nodes, as kind knows them, the control plane's first."""
        command = [self.environment.programs["kind"], "get", "nodes", f"--name={self.name}"]
        asked = subprocess.run(command, capture_output=True, text=True, check=True)
        return sorted(asked.stdout.split())

    @property
    def workers(self) -> list[str]:
        """Names of the nodes that run jobs."""
        return self.nodes[1:]

    def create(self, workers: int = 2, patches: Sequence[str] = ()) -> None:
        """Make the cluster and wait until all of it is ready.

        Args:
            workers: The number of nodes that run jobs.
            patches: Further documents of kubeadm's configuration.
        """
        self.delete()
        self.shared.mkdir(parents=True)
        # Pods write there as whatever user they run as.
        self.shared.chmod(0o777)
        command = ["create", "cluster", "--config=-", f"--kubeconfig={self.kubeconfig}"]
        if self.environment.node_image:
            command.append(f"--image={self.environment.node_image}")
        written = configuration(
            Path(self.environment.configuration).read_text(), self.shared, workers, patches
        )
        self._kind(*command, given=written)
        self.kubeconfig.chmod(0o600)
        (self.folder / "environment.json").write_text(self.environment.to_json())
        self._connect()
        self._wait_until_ready("nodes --all")

    def delete(self) -> None:
        """Delete the cluster and its folder, if they are there."""
        self._kind("delete", "cluster", f"--kubeconfig={self.kubeconfig}")
        shutil.rmtree(self.folder, ignore_errors=True)

    def load(self, images: Sequence[str]) -> None:
        """Put images of the Docker engine on the nodes that run jobs.

        kind would write them to one file first, which takes gigabytes of a disk.
        """
        into = (*_CTR, "images", "import", "--all-platforms", "--digests", "-")
        with ExitStack() as stack:
            save = ["docker", "save", *images]
            saved = stack.enter_context(subprocess.Popen(save, stdout=subprocess.PIPE))
            started = [
                stack.enter_context(
                    subprocess.Popen(
                        ["docker", "exec", "--interactive", node, *into],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL,
                    )
                )
                for node in self.workers
            ]
            assert saved.stdout is not None
            while part := saved.stdout.read(1 << 20):
                for one in started:
                    assert one.stdin is not None
                    one.stdin.write(part)
        for ended in (saved, *started):
            if ended.returncode:
                raise subprocess.CalledProcessError(ended.returncode, ended.args)
        ctr = " ".join(_CTR)
        for node in self.workers:
            # They are unpacked: what they came in takes as much again.
            forget = (
                f"{ctr} content ls | awk '/containerd.io.uncompressed/ {{print $1}}'"
                f" | xargs --no-run-if-empty {ctr} content rm"
            )
            command = ["docker", "exec", node, "sh", "-c", forget]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def stop_node(self, node: str) -> None:
        """Kill a node: everything on it is gone at once, without a grace period."""
        kill = subprocess.Popen(["docker", "kill", node], stdout=subprocess.DEVNULL)
        while kill.poll() is None:
            _thaw(node)
            time.sleep(0.2)
        if kill.returncode:
            raise subprocess.CalledProcessError(kill.returncode, kill.args)

    def start_node(self, node: str) -> None:
        """Start a node that was stopped, and wait until it is ready again."""
        subprocess.run(["docker", "start", node], check=True, stdout=subprocess.DEVNULL)
        self._connect()
        self._wait_until_ready(f"node/{node}")

    def _wait_until_ready(self, nodes: str) -> None:
        self.kubectl.wait(nodes, "condition=Ready", READY_SECONDS)
        for namespace in ("kube-system", "local-path-storage"):
            deployments = self.kubectl.within(namespace)
            deployments.wait("deployments --all", "condition=Available", READY_SECONDS)

    def kill_program(self, pod: Manifest) -> None:
        """Kill the first process of a pod's program, as the kernel does when memory is short."""
        container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix(
            "containerd://"
        )
        command = [*_CTR, "tasks", "kill", "--signal=SIGKILL", container]
        subprocess.run(["docker", "exec", pod["spec"]["nodeName"], *command], check=True)

    def _connect(self) -> None:
        """Wait for every node, and give the airgap's the network between pods that they lack."""
        names = self.nodes
        known = self.kubectl.wait_until(
            "nodes", lambda nodes: routes.have_ranges(nodes, names), READY_SECONDS
        )
        if self.environment.name == "airgap":
            routes.connect(
                routes.Node(name, _address(name), known[name]["spec"]["podCIDR"]) for name in names
            )

    def _kind(self, *arguments: str, given: str | None = None) -> None:
        subprocess.run(
            [self.environment.programs["kind"], *arguments, f"--name={self.name}"],
            input=given,
            text=True,
            check=True,
        )


def _thaw(node: str) -> None:
    """Thaw what is frozen in a node that is being killed.

    runc freezes the processes of a pod for a moment. If runc is killed then, they never die with
    cgroup v1, and neither does their node.
    """
    command = ["docker", "inspect", "--format={{.Id}}", node]
    identity = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    # Unlike rglob, os.walk goes on where a folder vanishes, which those of dying pods do.
    for folder, _, _ in os.walk(Path("/sys/fs/cgroup/freezer/docker", identity.strip())):
        with suppress(OSError):
            state = Path(folder, "freezer.state")
            if state.read_text() != "THAWED\n":
                state.write_text("THAWED")


def existing() -> Cluster:
    """Return the cluster that was created before, by this or another process."""
    name = cluster_name()
    stored = cache_folder() / "clusters" / name / "environment.json"
    if not stored.exists():
        raise SystemExit(f"there is no cluster {name}; make one: python tests/kind/run.py up")
    return Cluster(name, Environment.from_json(stored.read_text()))


def configuration(text: str, shared: Path, workers: int = 2, patches: Sequence[str] = ()) -> str:
    """Return kind's file with its nodes, and the shared folder mounted on every one."""
    parsed = yaml.safe_load(text)
    parsed["nodes"] = [{"role": "control-plane"}, *({"role": "worker"} for _ in range(workers))]
    parsed["kubeadmConfigPatches"] = [*(parsed.get("kubeadmConfigPatches") or ()), *patches]
    for node in parsed["nodes"]:
        node["extraMounts"] = [{"hostPath": str(shared), "containerPath": SHARED}]
    written: str = yaml.safe_dump(parsed, sort_keys=False)
    return written


def _address(node: str) -> str:
    """Return a running node's address; the API server may know one from before a restart."""
    template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    asked = subprocess.run(
        ["docker", "inspect", "--format", template, node],
        check=True,
        capture_output=True,
        text=True,
    )
    return asked.stdout.strip()
