"""Each strategy has its story, in each framework whose image is on the cluster."""

from __future__ import annotations

from imagenet_spec.resource.compatibility import COMBINATIONS
from kind.run import IMAGES
from kind.stories.test_strategies import CASES


def test_every_strategy_is_told_in_every_framework() -> None:
    told = {(strategy, case.framework) for case in CASES.values() for strategy in case.strategy}
    # The cluster has no image of PyTorch, but one in its place for the workers of one story.
    assert told == {("distributedDataParallel", "PyTorch")} | {
        (row.strategy, row.framework)
        for row in COMBINATIONS
        if f"workloads-{row.framework.lower()}" in IMAGES
    }
