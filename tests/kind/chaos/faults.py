"""The kinds of faults, one function each: break something, see that it broke, repair it.

A function returns what was observed, in words, or None if there was no effect. Faults of one group
exclude each other; those of different groups overlap.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from urllib.error import HTTPError

from kind.chaos.history import LEASE, LEASE_NAMESPACE, PODS, THIEF, PodState
from kind.chaos.jobs import STRATEGIES
from kind.chaos.probe import refusal
from kind.chaos.scene import Scene, poll, restore
from kind.kubectl import Kubectl, KubectlError, Manifest, NotFoundError
from kind.raw import opened
from kind.stories.namespace import is_ready, terminated

CONTROL_PLANE_MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
FINALIZER = "chaos.example.com/hold"
WEBHOOK = "chaos-third-party"
LOST_SECONDS = 240
"""A restart of the API server ends its controllers, which then measure the node's silence again."""


@dataclass(frozen=True)
class Fault:
    """A kind of fault.

    Attributes:
        name: As the table calls it.
        group: Of kinds that exclude each other.
        inject: Injects one; returns the target and what was observed, or None for no effect.
    """

    name: str
    group: str
    inject: Callable[[Scene], tuple[str, str] | None]


def kill_member(scene: Scene) -> tuple[str, str] | None:
    """Kill the first process of a member."""
    victim = scene.victim()
    if victim is None:
        return None
    kubectl = scene.namespace(victim.namespace)
    scene.cluster.kill_program(kubectl.get("pods", victim.name))

    def ended() -> str | None:
        try:
            pod = kubectl.get("pods", victim.name)
        except NotFoundError:
            return "the pod is gone"
        if pod["metadata"]["uid"] != victim.uid:
            return "the pod was replaced"
        with suppress(KeyError):
            return f"the program exited with {terminated(pod)['exitCode']}"
        return None

    found = poll(ended, 60)
    return None if found is None else (_of(victim), found)


def stop_member(scene: Scene) -> tuple[str, str] | None:
    """Stop the processes of a worker that trains, until its attempt ends."""
    victim = scene.victim(
        lambda pod: pod.role == "worker" and any(pod.namespace.endswith(s) for s in STRATEGIES)
    )
    if victim is None:
        return None
    numbers = _processes(scene, victim)
    if not numbers:
        return None
    scene.in_node(victim.node, "kill", "-STOP", *numbers)
    states = scene.in_node(victim.node, "ps", "-o", "stat=", "-p", ",".join(numbers), check=False)
    is_stopped = bool(states.split()) and all(state.startswith("T") for state in states.split())

    def is_gone() -> bool:
        return victim.uid not in {pod.uid for pod in scene.history.running(victim.namespace)}

    has_ended = poll(is_gone, 240)
    scene.in_node(victim.node, "kill", "-CONT", *numbers, check=False)
    if not is_stopped:
        return None
    outcome = "its attempt ended" if has_ended else "its attempt did not end in 240 s"
    return _of(victim), f"{len(numbers)} processes were stopped; {outcome}"


def _processes(scene: Scene, pod: PodState) -> list[str]:
    """Return the numbers of all processes of a pod, in its node."""
    found = scene.namespace(pod.namespace).get("pods", pod.name)
    container = found["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    listed = scene.in_node(pod.node, "ctr", "--namespace=k8s.io", "tasks", "ps", container)
    return [line.split()[0] for line in listed.splitlines()[1:]]


def stop_kubelet(scene: Scene) -> tuple[str, str] | None:
    """Stop a kubelet until the API server takes its node for lost; its programs run on."""
    node = scene.random.choice(scene.cluster.workers)
    begin = time.monotonic()
    scene.in_node(node, "systemctl", "stop", "kubelet")
    try:
        is_lost = poll(lambda: not scene.is_node_ready(node), LOST_SECONDS)
        time.sleep(scene.random.uniform(2, 15))
    finally:
        restore(lambda: scene.in_node(node, "systemctl", "start", "kubelet"))
        _wait_for_node(scene, node)
        scene.record_outage(node, begin)
    return (node, "the node was NotReady") if is_lost else None


def power_off_node(scene: Scene) -> tuple[str, str] | None:
    """Power a node off, and on again when the API server takes it for lost."""
    node = scene.random.choice(scene.cluster.workers)
    begin = time.monotonic()
    try:
        scene.cluster.stop_node(node)
        is_lost = poll(lambda: not scene.is_node_ready(node), LOST_SECONDS)
        time.sleep(scene.random.uniform(1, 10))
    finally:
        restore(lambda: scene.cluster.start_node(node), 600)
        restore(lambda: scene.advertise_gpus(node))
        scene.record_outage(node, begin)
    return (node, "the node was NotReady") if is_lost else None


def _wait_for_node(scene: Scene, node: str) -> None:
    poll(lambda: scene.is_node_ready(node), 180)
    restore(lambda: scene.advertise_gpus(node))


def restart_api_server(scene: Scene) -> tuple[str, str] | None:
    """Let the kubelet replace the API server."""
    control_plane = scene.cluster.nodes[0]
    former = scene.in_node(control_plane, "pgrep", "-x", "kube-apiserver").strip()
    begin = time.monotonic()
    _touch_manifest(scene, control_plane)

    def replaced() -> str | None:
        now = scene.in_node(control_plane, "pgrep", "-x", "kube-apiserver", check=False).strip()
        return now if now and now != former else None

    new = poll(replaced, 120)
    is_back = poll(lambda: scene.cluster.kubectl.raw("/readyz") == "ok", 180)
    scene.silences.append((begin, time.monotonic()))
    return ("API server", f"process {former} became {new}") if new and is_back else None


def _touch_manifest(scene: Scene, control_plane: str) -> None:
    """Change a label of the static pod: the kubelet then replaces it, without a back-off."""
    stamp = str(time.time_ns())
    scene.in_node(
        control_plane,
        "sed",
        "-i",
        "-e",
        "/chaos-stamp/d",
        "-e",
        f"s/^  labels:/&\\n    chaos-stamp: s{stamp}/",
        CONTROL_PLANE_MANIFEST,
    )


def compact_etcd(scene: Scene) -> tuple[str, str] | None:
    """Compact etcd and restart the API server, so that older watches get 410."""
    control_plane = scene.cluster.nodes[0]
    listed = json.loads(scene.cluster.kubectl.raw(PODS + "&limit=1"))
    version = listed["metadata"]["resourceVersion"]
    # Any write makes a newer revision than the one that is watched from.
    scene.cluster.kubectl.patch(
        "nodes", control_plane, {"metadata": {"annotations": {"chaos": version}}}
    )
    if restart_api_server(scene) is None:
        return None
    newest = json.loads(scene.cluster.kubectl.raw(PODS + "&limit=1"))["metadata"]["resourceVersion"]
    _etcd(scene, control_plane, "compaction", {"revision": newest, "physical": True})

    def is_refused() -> bool:
        path = f"{PODS}&watch=1&resourceVersion={version}&timeoutSeconds=1"
        try:
            with opened(scene.cluster.kubeconfig, path, 10) as answer:
                return any(json.loads(line)["object"].get("code") == 410 for line in answer)
        except HTTPError as refusal:
            return refusal.code == 410

    return ("etcd", f"a watch from {version} got 410") if poll(is_refused, 30) else None


def _etcd(scene: Scene, control_plane: str, verb: str, document: Manifest) -> str:
    folder = "/etc/kubernetes/pki/etcd"
    return scene.in_node(
        control_plane,
        *("curl", "--silent", "--show-error", "--fail", "--max-time", "30"),
        *("--cacert", f"{folder}/ca.crt"),
        *("--cert", f"{folder}/server.crt", "--key", f"{folder}/server.key"),
        *("--data", json.dumps(document), f"https://127.0.0.1:2379/v3/kv/{verb}"),
    )


def cut_operator(scene: Scene) -> tuple[str, str] | None:
    """Drop all packets between an operator's pod and the API server, for 5 to 120 s."""
    pods = [pod for pod in scene.operator.pods() if pod["status"].get("podIP")]
    if not pods:
        return None
    pod = scene.random.choice(pods)
    node, address = pod["spec"]["nodeName"], pod["status"]["podIP"]
    seconds = scene.random.choice([5, 10, 20, 30, 60, 120])
    rules = [
        ["FORWARD", way, address, "-p", "tcp", port, "6443", "-j", "DROP"]
        for way, port in (("-s", "--dport"), ("-d", "--sport"))
    ]
    try:
        for rule in rules:
            scene.in_node(node, "iptables", "-I", *rule)
        time.sleep(seconds)
        dropped = _dropped_packets(scene.in_node(node, "iptables", "-nvxL", "FORWARD"), address)
    finally:
        for rule in rules:
            restore(partial(scene.in_node, node, "iptables", "-D", *rule, check=False))
    name: str = pod["metadata"]["name"]
    return (name, f"{dropped} packets were dropped in {seconds} s") if dropped else None


def _dropped_packets(listing: str, address: str) -> int:
    """Return the packets that the rules about an address have dropped."""
    rules = (line.split() for line in listing.splitlines() if address in line)
    return sum(int(fields[0]) for fields in rules if "DROP" in fields)


def flap_quota(scene: Scene) -> tuple[str, str] | None:
    """Allow a job's namespace no further pod for some seconds, while a member dies."""
    victim = scene.victim()
    if victim is None:
        return None
    kubectl = scene.namespace(victim.namespace)
    quota = {"metadata": {"name": "chaos"}, "spec": {"hard": {"pods": "0"}}}
    try:
        kubectl.create("resourcequotas", quota)
        refused = poll(lambda: refusal(scene.cluster, victim.namespace, "exceeded quota"), 30)
        kubectl.delete("pods", victim.name, grace_seconds=1)
        time.sleep(scene.random.uniform(5, 25))
    finally:
        restore(lambda: _delete(kubectl, "resourcequotas", "chaos"))
    return (victim.namespace, f"pods were refused: {refused}") if refused else None


def break_webhook(scene: Scene) -> tuple[str, str] | None:
    """Let a third party's webhook, which fails closed, be down for a job's namespace."""
    victim = scene.victim()
    if victim is None:
        return None
    configuration = {
        "metadata": {"name": WEBHOOK},
        "webhooks": [
            {
                "name": "pods.chaos.example.com",
                "clientConfig": {"service": {"name": "absent", "namespace": "default"}},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": victim.namespace}
                },
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 1,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
    try:
        scene.cluster.kubectl.create("validatingwebhookconfigurations", configuration)
        refused = poll(
            lambda: refusal(scene.cluster, victim.namespace, "failed calling webhook"), 30
        )
        scene.namespace(victim.namespace).delete("pods", victim.name, grace_seconds=1)
        time.sleep(scene.random.uniform(5, 25))
    finally:
        restore(lambda: _delete(scene.cluster.kubectl, "validatingwebhookconfigurations", WEBHOOK))
    return (victim.namespace, f"pods were refused: {refused}") if refused else None


def _delete(kubectl: Kubectl, resource: str, name: str) -> None:
    with suppress(NotFoundError):
        kubectl.delete(resource, name)  # type: ignore[arg-type]


def hold_by_finalizer(scene: Scene) -> tuple[str, str] | None:
    """Keep a deleted member by a finalizer for 20 to 70 s."""
    victim = scene.victim()
    if victim is None:
        return None
    kubectl = scene.namespace(victim.namespace)
    kubectl.patch("pods", victim.name, {"metadata": {"finalizers": [FINALIZER]}})
    try:
        kubectl.delete("pods", victim.name, grace_seconds=1)
        time.sleep(scene.random.uniform(20, 70))
        pod = poll(lambda: kubectl.get("pods", victim.name), 60)
        is_held = pod is not None and "deletionTimestamp" in pod["metadata"]
    finally:
        restore(lambda: _let_go(kubectl, victim.name))
    return (_of(victim), "the pod stayed Terminating") if is_held else None


def _let_go(kubectl: Kubectl, pod: str) -> None:
    with suppress(NotFoundError):
        kubectl.patch("pods", pod, {"metadata": {"finalizers": None}})


def kill_operator(scene: Scene) -> tuple[str, str] | None:
    """Kill an operator's process, and delete its pod."""
    # One that has lost its Lease has ended by itself, and is started again after some seconds.
    pods = poll(lambda: [pod for pod in scene.operator.pods() if is_ready(pod)], 60)
    if not pods:
        return None
    pod = scene.random.choice(pods)
    name = pod["metadata"]["name"]
    scene.cluster.kill_program(pod)
    with suppress(KubectlError):
        scene.operator.kubectl.delete("pods", name, grace_seconds=0)

    def is_gone() -> bool:
        return name not in {item["metadata"]["name"] for item in scene.operator.pods()}

    return (name, "the pod is gone") if poll(is_gone, 60) else None


def steal_lease(scene: Scene) -> tuple[str, str] | None:
    """Write another holder into the operator's Lease; the leader has to stop at once."""
    kubectl = scene.cluster.kubectl.within(LEASE_NAMESPACE)
    former: str = kubectl.get("leases", LEASE)["spec"]["holderIdentity"]
    kubectl.patch("leases", LEASE, {"spec": {"holderIdentity": THIEF}})

    def successor() -> str | None:
        holder: str = kubectl.get("leases", LEASE)["spec"]["holderIdentity"]
        return holder if holder not in ("", THIEF) else None

    # A holder that does not renew loses it after the lease's duration.
    holder = poll(successor, 90)
    return None if holder is None else (LEASE, f"{former} lost it; {holder} took it")


def _of(pod: PodState) -> str:
    return f"{pod.namespace}/{pod.name}"


FAULTS = (
    Fault("Member killed", "members", kill_member),
    Fault("Member stopped", "stops", stop_member),
    Fault("Kubelet stopped", "nodes", stop_kubelet),
    Fault("Node powered off", "nodes", power_off_node),
    Fault("API server restarted", "api", restart_api_server),
    Fault("etcd compacted, watches get 410", "api", compact_etcd),
    Fault("Operator cut from the API server", "operator", cut_operator),
    Fault("Quota flaps", "members", flap_quota),
    Fault("A webhook fails closed", "members", break_webhook),
    Fault("Pod held by a finalizer", "held", hold_by_finalizer),
    Fault("Operator killed", "operator", kill_operator),
    Fault("Lease stolen", "operator", steal_lease),
)
"""Every kind; a run injects each at least as often as asked."""
