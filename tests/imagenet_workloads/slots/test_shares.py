"""The environment of each slot of a pod."""

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.rendezvous.ddp import Process
from imagenet_workloads.rendezvous.horovod import HorovodSlot
from imagenet_workloads.slots.shares import environments, metrics_address

NAMES = HorovodSlot.variables

POD = {
    "HOROVOD_RANK": "4",
    "HOROVOD_SIZE": "8",
    "HOROVOD_LOCAL_RANK": "0",
    "HOROVOD_LOCAL_SIZE": "2",
    "HOROVOD_CROSS_RANK": "2",
    "IMAGENET_METRICS_PORT": "9090",
    "POD_IP": "10.0.0.7",
}


def test_slots_follow_each_other_in_rank() -> None:
    first, second = environments(POD, NAMES, 2, [], 1)
    assert (first["HOROVOD_RANK"], first["HOROVOD_LOCAL_RANK"]) == ("4", "0")
    assert (second["HOROVOD_RANK"], second["HOROVOD_LOCAL_RANK"]) == ("5", "1")
    for share in (first, second):
        assert (share["HOROVOD_SIZE"], share["HOROVOD_CROSS_RANK"]) == ("8", "2")


def test_no_two_slots_serve_metrics_at_one_place() -> None:
    shares = [*environments(POD, NAMES, 2, [], 4711), *environments(POD, NAMES, 2, [], 4712)]
    places = {(share["POD_IP"], share["IMAGENET_METRICS_PORT"]) for share in shares}
    assert len(places) == 4
    assert all(address.startswith("127.") for address, _ in places)
    assert ("10.0.0.7", "9090") not in places


def test_every_process_id_has_an_address_of_its_own() -> None:
    assert metrics_address(1) == "127.64.0.1"
    # The largest that Linux gives.
    assert metrics_address(2**22) == "127.128.0.0"


@pytest.mark.parametrize(
    ("devices", "shares"),
    [
        (["0", "1"], ["0", "1"]),
        (["2", "3", "6", "7"], ["2,3", "6,7"]),
        (["GPU-a", "GPU-b"], ["GPU-a", "GPU-b"]),
    ],
)
def test_gpus_are_shared_equally(devices: list[str], shares: list[str]) -> None:
    found = [share["CUDA_VISIBLE_DEVICES"] for share in environments(POD, NAMES, 2, devices, 1)]
    assert found == shares


def test_without_gpus_nothing_is_said_about_them() -> None:
    assert all("CUDA_VISIBLE_DEVICES" not in share for share in environments(POD, NAMES, 2, [], 1))
    hidden = environments(POD | {"CUDA_VISIBLE_DEVICES": ""}, NAMES, 2, [], 1)
    assert [share["CUDA_VISIBLE_DEVICES"] for share in hidden] == ["", ""]


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "IMAGENET_CPUS"])
@pytest.mark.parametrize(("threads", "share"), [("8", "4"), ("3", "1"), ("1", "1")])
def test_threads_are_shared_too(name: str, threads: str, share: str) -> None:
    for slot in environments(POD | {name: threads}, NAMES, 2, [], 1):
        assert slot[name] == share


@pytest.mark.parametrize(
    ("address", "more", "interface"),
    [
        ("127.0.3.1", {}, "lo"),
        ("10.0.0.7", {}, None),
        ("", {}, None),
        ("127.0.3.1", {"HOROVOD_GLOO_IFACE": "eth1"}, "eth1"),
    ],
)
def test_pods_of_one_machine_talk_over_loopback(
    address: str, more: dict[str, str], interface: str | None
) -> None:
    slot = environments(POD | {"POD_IP": address} | more, NAMES, 2, [], 1)[0]
    assert slot.get("HOROVOD_GLOO_IFACE") == interface


@pytest.mark.parametrize(
    ("slots", "changed", "devices", "message"),
    [
        (3, {}, [], "--slots is 3, but HOROVOD_LOCAL_SIZE is 2: write the same number"),
        (2, {}, ["0", "1", "2"], "2 slots cannot share 3 GPUs equally"),
        (2, {"HOROVOD_RANK": "7"}, [], "HOROVOD_RANK is '7'; write a whole number from 0 to 6"),
        (2, {"HOROVOD_SIZE": "1"}, [], "HOROVOD_SIZE is '1'; write a whole number from 2"),
    ],
)
def test_what_does_not_fit_is_refused(
    slots: int, changed: dict[str, str], devices: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        environments(POD | changed, NAMES, slots, devices, 1)


def test_processes_of_distributed_data_parallel_follow_each_other_in_rank() -> None:
    pod = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    shares = environments(pod, Process.variables, 2, ["0", "1"], 1)
    ranks = [(share["RANK"], share["LOCAL_RANK"]) for share in shares]
    assert ranks == [("2", "0"), ("3", "1")]
    assert [share["CUDA_VISIBLE_DEVICES"] for share in shares] == ["0", "1"]
