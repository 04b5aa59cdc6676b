"""Who classifies the validation images, and what they count."""

import pytest

from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.train.loop import evaluate
from support.framework_doubles import Alone, Learner, Zeros


@pytest.mark.parametrize("collective", [True, False])
def test_every_image_is_counted_and_padding_is_not(collective: bool) -> None:
    found = evaluate(Learner(), Zeros(), Alone(collective=collective), 0)
    assert found is not None
    assert (found.images, found.top1) == (10, 10)


def test_ranks_that_are_apart_leave_it_to_rank_0() -> None:
    assert evaluate(Learner(), Zeros(), Alone(rank=1, collective=False), 0) is None


def test_missing_images_are_noticed() -> None:
    with pytest.raises(WorkloadError, match="saw 10 images of 11"):
        evaluate(Learner(), Zeros(images=11), Alone(), 0)
