"""What to change, in words, if a program was killed for its memory."""

import pytest

from imagenet_operator.reconcile.policies.members import memory_remedy
from support.job_table import JOBS

SLOWER = " may save some more, but is slower"


@pytest.mark.parametrize(
    ("job", "end"),
    [
        ("defaults", f"; MXNET_BACKWARD_DO_MIRROR=1 in its env{SLOWER}"),
        ("single of pytorch", f"; spec.training.activationCheckpointing: true{SLOWER}"),
        ("activation checkpointing", " adds up the gradients of smaller batches)"),
        ("mirrored", " adds up the gradients of smaller batches)"),
    ],
)
def test_a_worker_is_told_what_its_framework_can_do_without(job: str, end: str) -> None:
    said = memory_remedy("worker", JOBS[job])
    for field in ("resources.limits.memory", "spec.training.batchSize", "dataThreads"):
        assert field in said
    assert said.endswith(end)


def test_a_preparation_is_told_its_limit_alone() -> None:
    assert memory_remedy("pack").endswith("in spec.dataset.preprocessing.template")
