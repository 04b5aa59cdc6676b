"""The processes of a training on one machine: each finds its place by its own rendezvous."""

import json
from collections.abc import Iterator
from itertools import count

import pytest

from imagenet_workloads.frameworks import FRAMEWORKS
from imagenet_workloads.rendezvous import LocalMember, find, horovod_server, local_members
from imagenet_workloads.rendezvous.dmlc import DmlcMember, DmlcRole

MODULES = sorted({name for one in FRAMEWORKS.values() for name in one.rendezvous.values()})
WITH_PEERS = [module for module in MODULES if module != "none"]


@pytest.fixture
def ports() -> Iterator[int]:
    return count(20_000)


def of(module: str, ports: Iterator[int], workers: int, servers: int = 1) -> list[LocalMember]:
    return list(local_members(module, workers, servers, lambda: next(ports)))


@pytest.mark.parametrize("module", WITH_PEERS)
@pytest.mark.parametrize("workers", [1, 3])
def test_each_worker_finds_its_place(module: str, ports: Iterator[int], workers: int) -> None:
    made = [one for one in of(module, ports, workers) if one.is_worker]
    assert len(made) == workers
    for member in made:
        assert member.program == "imagenet-train"
        find("--strategy", "s", {"s": module}, member.variables)
    assert len({json.dumps(dict(member.variables)) for member in made}) == workers


def test_a_process_without_peers_is_alone(ports: Iterator[int]) -> None:
    assert of("none", ports, 1) == [LocalMember({})]


def test_servers_and_their_scheduler_are_further_members(ports: Iterator[int]) -> None:
    made = of("dmlc", ports, 2, servers=3)
    found = [DmlcMember.from_mapping(one.variables) for one in made]
    assert [one and one.role for one in found] == [
        DmlcRole.SCHEDULER,
        *[DmlcRole.SERVER] * 3,
        *[DmlcRole.WORKER] * 2,
    ]
    assert {one and (one.workers, one.servers) for one in found} == {(2, 3)}
    assert [member.is_worker for member in made] == [False] * 4 + [True] * 2
    own = [one.own_port if one and one.own_port else one and one.port for one in found]
    assert len(set(own)) == len(made)


def test_the_rendezvous_of_horovod_expects_the_slots(ports: Iterator[int]) -> None:
    rendezvous, *slots = of("horovod", ports, 2)
    assert (rendezvous.program, rendezvous.is_worker) == ("imagenet-rendezvous", False)
    ((host, expected),) = horovod_server.read_hosts(rendezvous.variables)
    assert expected == len(slots)
    assert {slot.variables["HOROVOD_HOSTNAME"] for slot in slots} == {host}
    port = rendezvous.variables["HOROVOD_GLOO_RENDEZVOUS_PORT"]
    assert {slot.variables["HOROVOD_GLOO_RENDEZVOUS_PORT"] for slot in slots} == {port}


def test_listed_workers_have_an_address_each(ports: Iterator[int]) -> None:
    configurations = [json.loads(one.variables["TF_CONFIG"]) for one in of("tf_config", ports, 3)]
    listed = configurations[0]["cluster"]["worker"]
    assert len(set(listed)) == 3
    assert [one["cluster"]["worker"] for one in configurations] == [listed] * 3
    assert [one["task"]["index"] for one in configurations] == [0, 1, 2]
