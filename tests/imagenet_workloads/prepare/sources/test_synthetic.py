"""Synthetic images are stable, of the shape asked for, and different by class and number."""

import pytest

from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.sources.synthetic import SyntheticSource
from support.pictures import decode, difference


def test_makes_every_image_of_the_shape() -> None:
    source = SyntheticSource(11, 2, (3, 20, 30))
    images = list(source.scan(Notes()))
    assert [image.class_name for image in images[::2]] == [f"class-{n:02}" for n in range(11)]
    made = [source.read(image.name, image.offset, image.size) for image in images]
    assert {decode(jpeg).shape for jpeg in made} == {(20, 30, 3)}
    assert len(set(made)) == 22
    again = SyntheticSource.from_fields(Fields(source.to_document(), "plan"))
    assert [again.read(image.name, image.offset, image.size) for image in images] == made


def test_images_of_a_class_are_alike() -> None:
    source = SyntheticSource(2, 8, (3, 32, 32))
    first, *others = [decode(source.read("x", number, 3 * 32 * 32)) for number in range(16)]
    same, different = others[:7], others[7:]
    assert min(difference(first, image) for image in same) < 15
    assert min(difference(first, image) for image in different) > 30


def test_refuses_images_of_another_plan() -> None:
    source = SyntheticSource(2, 2, (3, 8, 8))
    for offset, size in ((4, 192), (0, 300)):
        with pytest.raises(InputError, match="the source has changed"):
            source.read("class-0/0.jpeg", offset, size)
    with pytest.raises(InputError, match="shape must be channels, height and width"):
        SyntheticSource.from_fields(
            Fields({"classes": 1, "imagesPerClass": 1, "shape": [3, 8]}, "plan")
        )
