"""What a framework lacks is named by options that there are."""

import pytest

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.frameworks.descriptor import Framework, Images
from imagenet_spec.program.train import OPTIONS

NAMES = {item.name for item in OPTIONS}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_it_lacks_are_options(name: str) -> None:
    framework = FRAMEWORKS[name]
    assert {*framework.lacks, *framework.lacks_values} <= NAMES
    assert set(framework.lacks_grey_augmentations) <= NAMES
    assert framework.memory_option is None or framework.memory_option in NAMES


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_resource_refuses_all_that_it_lacks(name: str) -> None:
    """A dataset's files are the operator's choice."""
    framework = FRAMEWORKS[name]
    refused = {item.name for item in (*framework.lacks_fields, *framework.lacks_options)}
    refused |= {*framework.lacks_augmentations, "data_train_idx", "data_val_idx"}
    assert set(framework.lacks) <= refused
    assert framework.lacks_values.keys() <= {"optimizer", "dtype", "reader", "warmup_strategy"}


def test_the_parts_of_the_resource_follow_from_the_options() -> None:
    lacking = Framework(
        name="NumPy",
        formats=("RecordIO",),
        networks={},
        strategies={},
        images=Images("numpy:1", "numpy:1"),
        lacks=("optimizer", "random_crop", "ema_decay", "monitor", "load_epoch"),
        lacks_values={"dtype": ("float16",), "reader": ("ImageRecordIter",)},
    )
    assert "sgd" not in lacking.lacks_optimizers and "adam" in lacking.lacks_optimizers
    assert lacking.lacks_precisions == ("float16",)
    assert lacking.readers == ("Ordered",)
    assert lacking.lacks_augmentations == ("random_crop",)
    assert [item.field for item in lacking.lacks_fields] == ["training.optimizer.emaDecay"]
    assert [item.flag for item in lacking.lacks_options] == ["--monitor"]
