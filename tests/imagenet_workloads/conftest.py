"""The tests of `train` run in a process that refuses frameworks; this chooses the process.

A process in which another test has imported a framework cannot show that `train` does without one.
So pytest collects tests/imagenet_workloads/train only if it is the only folder. In other runs,
test_train_without_frameworks.py runs the folder in a separate process.
"""

from pathlib import Path

import pytest

TRAIN = Path(__file__).parent / "train"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the folder out unless it is all that was asked for."""
    if collection_path != TRAIN and TRAIN not in collection_path.parents:
        return None
    asked = [Path(config.invocation_params.dir, one.partition("::")[0]) for one in config.args]
    alone = all(path == TRAIN or TRAIN in path.parents for path in asked)
    return None if alone else True
