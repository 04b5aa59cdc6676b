"""Every depth of every network is built in Keras, as the resource promises.

The table is the catalogue's own; tests/contract holds it to that of the resource. The first depth
of each network, and those networks that have none, test_networks builds and tries.
"""

import pytest

from imagenet_workloads.frameworks.tensorflow import networks
from imagenet_workloads.train.networks import NetworkRequest

CLASSES = 10
DEEPER = [
    (name, layers, max(family.smallest, 33))
    for name, family in networks.FAMILIES.items()
    for layers in family.depths[1:]
]


@pytest.mark.parametrize(
    ("name", "layers", "side"),
    [*DEEPER, *(("resnet", layers, 32) for layers in (8, 56, 110))],
)
def test_it_is_built(name: str, layers: int, side: int) -> None:
    model = networks.build(NetworkRequest(name, layers, CLASSES, (3, side, side)))
    assert model.output_shape == (None, CLASSES)
    assert model.input_shape == (None, side, side, 3)
