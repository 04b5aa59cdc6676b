"""`imagenet-predict` sees of a picture what the validation of TensorFlow saw."""

from pathlib import Path

from imagenet_workloads.frameworks.tensorflow.data import choose
from support.one_transform import assert_predict_sees_the_same


def test_predict_sees_what_validation_saw(tmp_path: Path) -> None:
    assert_predict_sees_the_same(
        tmp_path, lambda options: choose(options, 0, 1, 1), "--framework", "TensorFlow"
    )
