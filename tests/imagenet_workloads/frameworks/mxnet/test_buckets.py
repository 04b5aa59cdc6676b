"""Gradients travel together, and each is where its weight looks for it."""

from itertools import zip_longest

import mxnet as mx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.frameworks.mxnet.replicas import ENOUGH, Weight, allocate, plan

WEIGHTS = st.lists(
    st.builds(Weight, st.just("w"), st.integers(1, 40), st.sampled_from([np.float32, np.float16]))
)


@given(WEIGHTS, st.integers(1, 100))
def test_every_weight_is_in_one_bucket_and_in_order(weights: list[Weight], enough: int) -> None:
    buckets = plan(weights, enough)
    assert [weight for bucket in buckets for weight in bucket] == weights
    assert all(len({weight.dtype for weight in bucket}) == 1 for bucket in buckets)


@given(WEIGHTS, st.integers(1, 100))
def test_a_bucket_ends_when_it_has_enough(weights: list[Weight], enough: int) -> None:
    buckets = plan(weights, enough)
    for bucket, following in zip_longest(buckets, buckets[1:]):
        *before, _ = sizes = [weight.size for weight in bucket]
        assert sum(before) < enough
        is_last = following is None or following[0].dtype != bucket[0].dtype
        assert is_last or sum(sizes) >= enough


def test_what_happens_to_a_bucket_happens_to_the_gradients_in_it() -> None:
    shapes = {"conv": (4, 3, 2), "gamma": (4,), "large": (1000, 1000), "bias": (2,)}
    weights = {name: mx.nd.ones(shape) for name, shape in shapes.items()}

    (first, last), gradients = allocate(weights)

    assert (first.size, last.size) == (24 + 4 + ENOUGH, 2)
    gradients["gamma"][:] = 5
    assert first[24:28].asnumpy().tolist() == [5] * 4
    assert first.sum().asscalar() == 20
    first[:] *= 2
    last[:] = 3
    assert {name: gradient.shape for name, gradient in gradients.items()} == shapes
    assert gradients["gamma"].asnumpy().tolist() == [10] * 4
    assert gradients["bias"].asnumpy().tolist() == [3] * 2
