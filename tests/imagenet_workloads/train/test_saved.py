"""What a checkpoint holds comes back, and positions survive other epoch lengths."""

from pathlib import Path

import mxnet as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.checkpoint.store import Position
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.saved import load_parameters, translate

LENGTH = st.integers(1, 5000)


@given(batch=st.integers(0, 5000), was=LENGTH, now=LENGTH, together=st.integers(1, 7))
def test_a_translated_position_is_never_later(
    batch: int, was: int, now: int, together: int
) -> None:
    batch = min(batch, was - 1)
    found = translate(Position(3, batch), was, now, together)
    assert found.epoch == 3
    assert found.batch % together == 0
    assert found.batch / now <= batch / was
    assert found.batch < now


@given(batch=LENGTH, length=LENGTH)
def test_without_a_change_the_batch_stays(batch: int, length: int) -> None:
    position = Position(1, min(batch, length - 1))
    assert translate(position, length, length, 1) == position


def test_mxnets_own_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "p-0001.params"
    mx.nd.save(str(path), {"arg:w": mx.nd.ones(2), "aux:m": mx.nd.zeros(3)})
    found = load_parameters(path)
    assert np.array_equal(found.arguments["w"].asnumpy(), [1, 1])
    assert found.auxiliary["m"].shape == (3,)


@pytest.mark.parametrize("damage", ["missing", "no arrays", "no names", "other names"])
def test_other_files_are_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "params"
    if damage == "no arrays":
        path.write_bytes(b"hello")
    elif damage == "no names":
        mx.nd.save(str(path), [mx.nd.ones(1)])
    elif damage == "other names":
        mx.nd.save(str(path), {"weight": mx.nd.ones(1)})
    with pytest.raises(InputError, match=str(path)):
        load_parameters(path)
