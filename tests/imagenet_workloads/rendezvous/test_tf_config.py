"""TensorFlow's workers before they have joined."""

import json
import os
import socket

import pytest

from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.rendezvous import tf_config, waiting
from imagenet_workloads.rendezvous.tf_config import find

NAMES = ["digits-r0-worker-0.digits-r0:9092", "digits-r0-worker-1.digits-r0:9092"]
TASK = {"type": "worker", "index": 1}
VARIABLES = {"TF_CONFIG": json.dumps({"cluster": {"worker": NAMES}, "task": TASK})}


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment, which joining changes."""
    made = dict(os.environ)
    monkeypatch.setattr(os, "environ", made)
    return made


@pytest.mark.parametrize(
    ("address", "listed"), [("10.0.0.7", "10.0.0.7:9092"), ("fd00::7", "[fd00::7]:9092")]
)
def test_tensorflow_gets_the_addresses_when_all_names_resolve(
    address: str, listed: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def resolve(host: str, port: int) -> str:
        asked.append(host)
        if len(asked) == 2:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return address

    monkeypatch.setattr(tf_config, "resolve", resolve)
    monkeypatch.setattr(waiting, "RESOLVE_INTERVAL", 0.01)
    with find("x", VARIABLES).joining(60):
        found = json.loads(variables["TF_CONFIG"])
    assert found == {"cluster": {"worker": [listed] * 2}, "task": TASK}
    first, second = (name.partition(":")[0] for name in NAMES)
    assert asked == [first, second, second]


def test_a_name_that_never_resolves_is_named() -> None:
    listed = json.dumps({"cluster": {"worker": ["nobody.invalid:1"]}, "task": {"index": 0}})
    words = r"worker 0 gave up after 0\.1 s of waiting for the name nobody\.invalid to resolve"
    with (
        pytest.raises(WorkloadError, match=words),
        find("x", {"TF_CONFIG": listed}).joining(0.1),
    ):
        pass
