"""What holds for every test with MXNet: it draws the same numbers, whichever tests come before."""

import mxnet as mx
import pytest


@pytest.fixture(autouse=True)
def seed() -> None:
    mx.random.seed(0)
