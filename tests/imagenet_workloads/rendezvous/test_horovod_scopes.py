"""What slots may publish in Horovod's rendezvous, and how much."""

from http import HTTPStatus

import pytest

from imagenet_workloads.rendezvous.horovod_server import RefusedRequestError, Scopes, scope_sizes


def test_the_scopes_are_those_in_which_slots_meet() -> None:
    assert scope_sizes([("a", 2), ("b", 1)]) == {
        "global": 3,
        "local_a": 2,
        "local_b": 1,
        "cross_0": 2,
        "cross_1": 1,
    }


def test_process_sets_meet_within_each_scope() -> None:
    scopes = Scopes(scope_sizes([("a", 1), ("b", 1)]))
    meeting = "global_process_set_hash_1e9d548172549547"
    for rank in ("0", "1"):
        scopes.put(meeting, f"rank_{rank}", b"host")
        scopes.put(meeting, rank, b"old")
    for rank in ("0", "1"):
        scopes.finish(meeting, rank)
        assert scopes.get(meeting, rank) is None
        assert scopes.get(meeting, f"rank_{rank}") == b"host"
    # The same set again, after it was removed.
    scopes.put(meeting, "rank_0", b"host")
    scopes.put(meeting, "0", b"new")
    assert scopes.get(meeting, "0") == b"new"


def refused(scopes: Scopes, scope: str, key: str, value: bytes) -> HTTPStatus:
    with pytest.raises(RefusedRequestError) as caught:
        scopes.put(scope, key, value)
    return caught.value.status


def test_the_number_of_process_sets_is_limited() -> None:
    scopes = Scopes(scope_sizes([("a", 1)]))
    for number in range(256):
        for scope in ("global", "local_a", "cross_0"):
            scopes.put(f"{scope}_process_set_hash_{number:x}", "0", b"")
    status = refused(scopes, "global_process_set_hash_100", "0", b"")
    assert status is HTTPStatus.INSUFFICIENT_STORAGE
    scopes.put("global", "0", b"")


def test_the_bytes_of_all_values_are_limited_until_slots_have_met() -> None:
    slots = 300
    scopes = Scopes(scope_sizes([("a", slots)]))
    values = 0
    with pytest.raises(RefusedRequestError, match="too many values"):
        for number in range(256):
            for rank in range(slots):
                scope = f"global_process_set_hash_{number:x}" if number else "global"
                scopes.put(scope, str(rank), bytes(scopes.most_bytes))
                values += 1
    assert slots < values < 8 * slots
    for rank in range(slots):
        scopes.finish("global", str(rank))
    scopes.put("global", "0", bytes(scopes.most_bytes))


def test_gloo_s_addresses_of_a_thousand_slots_have_room() -> None:
    slots = 1000
    scopes = Scopes(scope_sizes([(f"worker-{number}", 1) for number in range(slots)]))
    address = bytes(136 * (slots - 1))
    for scope in ("global", "cross_0", "global_process_set_hash_1", "cross_0_process_set_hash_1"):
        for rank in range(slots):
            scopes.put(scope, f"rank_{rank}", b"n" * 64)
            scopes.put(scope, str(rank), address)
