"""Who can connect to the members of an attempt: only each other, if policies are enforced."""

from __future__ import annotations

import json

from kind.stories.jobs import AT_CHECKPOINT, IMAGE, Manifest, trained
from kind.stories.namespace import StoryNamespace, is_ready

CLOSED = "closed"
PORT = 8000
METRICS = 9090
MEETING = 9091

LISTEN = f"""
import socket
server = socket.create_server(("", {PORT}))
while True:
    server.accept()[0].close()
"""
TRY = """
import json, socket, sys
reached = {}
for address in sys.argv[1:]:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
        reached[address] = True
    except OSError:
        reached[address] = False
print(json.dumps(reached))
"""


def test_an_outsider_reaches_members_only_where_policies_mean_nothing(
    digits_story: StoryNamespace,
) -> None:
    """A further pod is closed to all others: it shows whether policies are enforced here."""
    story = digits_story
    story.kubectl.apply(trained(epochs=2, hold_at={"worker": AT_CHECKPOINT.format(1)}))
    story.kubectl.apply(python(CLOSED, LISTEN), closed())
    story.wait_until_held("worker")
    story.kubectl.wait_until("pods", lambda pods: is_ready(pods[CLOSED]))
    ports = {"story-r0-scheduler-0": MEETING, "story-r0-worker-0": METRICS, CLOSED: PORT}
    addresses = [
        f"{story.kubectl.get('pods', name)['status']['podIP']}:{port}"
        for name, port in ports.items()
    ]

    story.kubectl.apply(python("outsider", TRY, *addresses))
    story.wait_for_phase("outsider", "Succeeded")

    reached = json.loads(story.kubectl("logs", "outsider"))
    print("reached by an outsider:", reached)
    assert len(set(reached.values())) == 1
    # The members do reach each other: they train.
    story.release()
    story.wait_for_condition("Succeeded")


def closed() -> Manifest:
    """A policy that denies all ingress."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": CLOSED},
        "spec": {
            "podSelector": {"matchLabels": {"name": CLOSED}},
            "policyTypes": ["Ingress"],
            "ingress": [],
        },
    }


def python(name: str, program: str, *arguments: str) -> Manifest:
    """A pod that belongs to no job and runs a program."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"name": name}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "program",
                    "image": IMAGE,
                    "command": ["python", "-c", program, *arguments],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
