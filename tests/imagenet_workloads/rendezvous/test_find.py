"""The rendezvous of a worker, and environments that do not fit its strategy."""

import json
import socket
from collections.abc import Mapping

import pytest

from imagenet_spec.program.train import Options
from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.frameworks import FRAMEWORKS
from imagenet_workloads.frameworks.mxnet.description import DESCRIPTION
from imagenet_workloads.rendezvous import Rendezvous, tf_config
from imagenet_workloads.rendezvous.dmlc import DmlcRendezvous
from imagenet_workloads.rendezvous.horovod import HorovodRendezvous
from imagenet_workloads.rendezvous.none import NoRendezvous
from imagenet_workloads.rendezvous.tf_config import TfConfigRendezvous
from imagenet_workloads.train import worker
from support.sentences import says

SERVER = {
    "DMLC_ROLE": "worker",
    "DMLC_PS_ROOT_URI": "127.0.0.1",
    "DMLC_PS_ROOT_PORT": "1",
    "DMLC_NUM_WORKER": "2",
    "DMLC_NUM_SERVER": "1",
}
HOROVOD = {
    "HOROVOD_RANK": "1",
    "HOROVOD_SIZE": "2",
    "HOROVOD_LOCAL_RANK": "0",
    "HOROVOD_LOCAL_SIZE": "1",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "1",
}
TENSORFLOW = ["--framework", "TensorFlow", "--distribution-strategy"]


def find(options: Options, variables: Mapping[str, str]) -> Rendezvous:
    return worker.find_rendezvous(options, FRAMEWORKS[options.cluster.framework], variables)


@pytest.mark.parametrize(
    ("arguments", "variables", "rendezvous"),
    [
        (["--kv-store", "local"], {}, NoRendezvous),
        (["--kv-store", "device"], {}, NoRendezvous),
        (["--kv-store", "dist_sync"], SERVER, DmlcRendezvous),
        (["--kv-store", "dist_device_sync"], SERVER, DmlcRendezvous),
        (["--kv-store", "dist_async"], SERVER, DmlcRendezvous),
        (["--kv-store", "horovod"], HOROVOD, HorovodRendezvous),
        ([*TENSORFLOW, "mirrored"], {}, NoRendezvous),
        ([*TENSORFLOW, "horovod"], HOROVOD, HorovodRendezvous),
    ],
)
def test_the_strategy_decides(
    arguments: list[str], variables: dict[str, str], rendezvous: type[object]
) -> None:
    assert isinstance(find(parse(arguments), variables), rendezvous)


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (["--kv-store", "dist_sync"], {}, "--kv-store dist_sync: needs a scheduler and servers"),
        (["--kv-store", "dist_sync"], HOROVOD, "--kv-store dist_sync: needs a scheduler"),
        (["--kv-store", "horovod"], {}, "--kv-store horovod: needs a rendezvous"),
        (["--kv-store", "horovod"], SERVER, "imagenet-slots sets them for each"),
        (
            ["--kv-store", "local"],
            SERVER,
            says("DMLC_ROLE is worker", "needs dist_sync or dist_device_sync or dist_async"),
        ),
        (["--kv-store", "device"], HOROVOD, says("device: ", "HOROVOD_RANK is 1", "needs horovod")),
        ([*TENSORFLOW, "mirrored"], HOROVOD, "--distribution-strategy mirrored: HOROVOD_RANK is 1"),
        (
            [*TENSORFLOW, "mirrored"],
            {"TF_CONFIG": "{}"},
            says("mirrored: ", "TF_CONFIG is {}", "needs multi_worker_mirrored"),
        ),
        ([*TENSORFLOW, "horovod"], {}, "--distribution-strategy horovod: needs a rendezvous"),
    ],
)
def test_what_does_not_fit_is_said(
    arguments: list[str], variables: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        find(parse(arguments), variables)


def test_every_kv_store_of_the_command_line_has_a_rendezvous() -> None:
    for name, module in DESCRIPTION.rendezvous.items():
        variables = {"dmlc": SERVER, "horovod": HOROVOD}.get(module, {})
        gpus = ["--gpus", "0"] if name == "nccl" else []
        find(parse(["--kv-store", name, *gpus]), variables)


def test_who_is_alone_waits_for_nobody_and_has_hope() -> None:
    rendezvous = find(parse([]), {})
    assert rendezvous.wait(0.1)() is False
    with rendezvous.joining(0.1):
        pass


def test_a_worker_has_hope_as_long_as_the_scheduler_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = {"DMLC_PS_ROOT_PORT": str(server.getsockname()[1])}
        rendezvous = find(parse(["--kv-store", "dist_sync"]), SERVER | port)
        is_hopeless = rendezvous.wait(60)
        assert not is_hopeless()
    assert is_hopeless()


def test_a_worker_of_tensorflow_has_hope_while_all_others_listen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        cluster = {"worker": ["127.0.0.1:1", f"127.0.0.1:{other.getsockname()[1]}"]}
        task = {"type": "worker", "index": 0}
        variables = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
        rendezvous = find(parse([*TENSORFLOW, "multi_worker_mirrored"]), variables)
        is_hopeless = rendezvous.wait(60)
        with rendezvous.joining(60):
            pass
        assert not is_hopeless(), "its own port does not count"
    monkeypatch.setattr(tf_config, "GONE_SECONDS", 3600.0)
    assert not is_hopeless(), "this one may still write the last checkpoint"
    monkeypatch.setattr(tf_config, "GONE_SECONDS", 0.0)
    assert is_hopeless()


def test_a_worker_that_listens_again_gives_hope(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([True, False, True])
    monkeypatch.setattr(tf_config, "is_gone", lambda address, port: next(answers))
    monkeypatch.setattr(tf_config, "GONE_SECONDS", 0.0)
    rendezvous = TfConfigRendezvous(("127.0.0.1:1", "127.0.0.1:2"), 0)
    is_hopeless = rendezvous.wait(60)
    with rendezvous.joining(60):
        pass
    assert [is_hopeless() for _ in range(3)] == [True, False, True]


def test_a_slot_waits_for_the_rendezvous_and_then_always_has_hope() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = {"HOROVOD_GLOO_RENDEZVOUS_PORT": str(server.getsockname()[1])}
        is_hopeless = find(parse(["--kv-store", "horovod"]), HOROVOD | port).wait(60)
    assert not is_hopeless()


def test_a_slot_gives_up_on_the_rendezvous() -> None:
    rendezvous = find(parse(["--kv-store", "horovod"]), HOROVOD)
    with pytest.raises(WorkloadError, match=r"slot of rank 1 gave up.*the rendezvous 127.0.0.1:1"):
        rendezvous.wait(0.1)


GLOO_ERROR = """\
Graph execution error:
[horovod/third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error [127.0.0.1]:36759: \
Connection reset by peer
"""
# The same error, after MXNet has taken the other's address for the file where it was thrown.
OF_MXNET = """\
Traceback (most recent call last):
  File "Read error [127.0.0.1]", line 428
MXNetError: Connection reset by peer
"""


@pytest.mark.parametrize(
    ("arguments", "variables", "text", "reason"),
    [
        ("horovod", HOROVOD, "Horovod has been shut down. This was caused by", "another slot has"),
        # It depends on the first to notice: this slot's operation, or Horovod.
        ("horovod", HOROVOD, GLOO_ERROR, "another slot has"),
        ("horovod", HOROVOD, OF_MXNET, "another slot has"),
        ("horovod", HOROVOD, OF_MXNET.replace("reset by", "closed by"), "another slot has"),
        ("horovod", HOROVOD, "MXNetError: Broken pipe", "another slot has"),
        ("horovod", HOROVOD, "Check failed: shape", None),
        ("local", {}, "Horovod has been shut down", None),
        ("dist_sync", SERVER, "Check failed: shape", None),
    ],
)
def test_what_an_error_tells_of_the_others(
    arguments: str, variables: dict[str, str], text: str, reason: str | None
) -> None:
    found = find(parse(["--kv-store", arguments]), variables).explain(RuntimeError(text))
    assert (found or "").startswith(reason or "")
    assert (found is None) is (reason is None)
