"""Every depth of every network is built in Keras, as the resource promises.

The table is the catalogue's own; tests/contract holds it to that of the resource.
"""

import pytest

from imagenet_workloads.train.request import Request
from imagenet_workloads.train.tensorflow.networks import catalogue

CLASSES = 10
ALL = [
    (name, layers, max(family.smallest, 33))
    for name, family in catalogue.FAMILIES.items()
    for layers in family.depths or (None,)
]


@pytest.mark.parametrize(
    ("name", "layers", "side"),
    [*ALL, *(("resnet", layers, 32) for layers in (8, 20, 56, 110, 164))],
)
def test_it_is_built(name: str, layers: int | None, side: int) -> None:
    model = catalogue.build(Request(name, layers, CLASSES, (3, side, side)))
    assert model.output_shape == (None, CLASSES)
    assert model.input_shape == (None, side, side, 3)
