"""Each strategy has its story, in each framework that has it."""

from __future__ import annotations

from imagenet_operator.api.compatibility import COMBINATIONS
from kind.stories.test_strategies import CASES


def test_every_strategy_is_told_in_every_framework() -> None:
    told = {(strategy, case.framework) for case in CASES.values() for strategy in case.strategy}
    assert told == {(row.strategy, row.framework) for row in COMBINATIONS}
