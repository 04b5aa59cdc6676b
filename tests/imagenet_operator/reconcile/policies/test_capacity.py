"""Whether a gang fits: by table, and against all placements of small ones."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.reconcile.policies.capacity import fits
from support.attempt_members import GPU, seen

Amounts = dict[str, int]


def exact(amounts: Amounts) -> dict[str, Fraction]:
    return {name: Fraction(amount) for name, amount in amounts.items()}


def is_fitting(asked: list[Amounts], nodes: list[Amounts]) -> bool:
    members = [seen(f"worker-{number}", requests=exact(item)) for number, item in enumerate(asked)]
    return fits(members, {f"node-{number}": exact(item) for number, item in enumerate(nodes)})


@pytest.mark.parametrize(
    ("asked", "nodes", "fitting"),
    [
        pytest.param([], [], True, id="nobody"),
        pytest.param([{GPU: 1}], [], False, id="no nodes"),
        pytest.param([{}], [{}], True, id="nothing asked"),
        pytest.param([{GPU: 4}, {GPU: 4}], [{GPU: 8}], True, id="one node for all"),
        pytest.param([{GPU: 4}, {GPU: 4}], [{GPU: 7}], False, id="one device short"),
        pytest.param([{GPU: 4}, {GPU: 4}], [{GPU: 5}, {GPU: 5}], True, id="a node each"),
        pytest.param([{GPU: 4}, {GPU: 4}], [{GPU: 5}, {GPU: 3}], False, id="enough in sum only"),
        pytest.param([{"cpu": 1}, {GPU: 8}], [{GPU: 8, "cpu": 1}], True, id="two resources"),
        pytest.param([{GPU: 1}], [{"cpu": 64}], False, id="a node without the resource"),
        pytest.param([{}, {}], [{"pods": 1}], False, id="no place for a second pod"),
        pytest.param([{}, {}], [{"pods": 2}], True, id="places for two pods"),
        pytest.param(
            [{"cpu": 1}, {"cpu": 1}, {GPU: 1, "cpu": 3}],
            [{GPU: 1, "cpu": 3}, {"cpu": 2}],
            True,
            id="the scarce resource is placed first",
        ),
    ],
)
def test_fits(asked: list[Amounts], nodes: list[Amounts], fitting: bool) -> None:
    assert is_fitting(asked, nodes) is fitting


amounts = st.dictionaries(st.sampled_from([GPU, "cpu"]), st.integers(0, 4))


@given(st.lists(amounts, max_size=4), st.lists(amounts, max_size=3))
def test_never_says_yes_where_no_placement_exists(
    asked: list[Amounts], nodes: list[Amounts]
) -> None:
    if not is_fitting(asked, nodes):
        return
    placements = product(range(len(nodes)), repeat=len(asked))
    assert any(
        all(
            sum(item.get(name, 0) for item, at in zip(asked, where, strict=True) if at == node)
            <= nodes[node].get(name, 0)
            for node in range(len(nodes))
            for name in (GPU, "cpu")
        )
        for where in placements
    )
