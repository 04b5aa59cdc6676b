"""Every network takes images and gives scores, and its values go by MXNet's names and layouts."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.tensorflow import networks
from imagenet_workloads.frameworks.tensorflow.families import MAKERS, initialize
from imagenet_workloads.frameworks.tensorflow.weights import (
    assign,
    load_arrays,
    named,
    read_values,
    save_arrays,
)
from imagenet_workloads.train.networks import NetworkRequest

SMALLEST = [
    (name, layers, max(family.smallest, 33 if name == "resnet" else 8))
    for name, family in networks.FAMILIES.items()
    for layers in (family.depths[:1] or (None,))
]


@pytest.mark.parametrize(
    ("name", "layers", "side"), [*SMALLEST, ("resnet", 20, 32), ("resnet", 164, 28)]
)
def test_scores_come_of_images(name: str, layers: int | None, side: int) -> None:
    model = networks.build(NetworkRequest(name, layers, 7, (3, side, side)))
    assert model(tf.zeros((2, side, side, 3)), training=False).shape == (2, 7)
    weights, statistics = named(model)
    names = [one.name for one in (*weights, *statistics)]
    assert len(set(names)) == len(names) == len(model.variables)
    endings = ("_weight", "_bias", "_gamma", "_beta", "_moving_mean", "_moving_var")
    assert all(name.endswith(endings) for name in names)


@pytest.mark.parametrize(
    ("name", "layers", "shape", "parameters"),
    [
        ("mlp", None, (3, 28, 28), 310_090),
        ("lenet", None, (3, 28, 28), 432_080),
        # MXNet lists bn_data's gamma, which it keeps at 1, and in a large resnet its beta as well.
        ("resnet", 20, (3, 28, 28), 272_544 - 3),
        ("resnet", 50, (3, 224, 224), 23_520_976 - 6),
        ("mobilenet", None, (3, 224, 224), 3_217_226),
        ("vgg", 11, (3, 32, 32), 28_144_010),
        ("alexnet", None, (3, 224, 224), 57_044_810),
        ("squeezenet", None, (3, 224, 224), 727_626),
        ("densenet", 121, (3, 224, 224), 6_964_106),
    ],
)
def test_they_have_as_many_weights_as_mxnets(
    name: str, layers: int | None, shape: tuple[int, int, int], parameters: int
) -> None:
    weights, _ = named(networks.build(NetworkRequest(name, layers, 10, shape)))
    assert sum(int(np.prod(one.variable.shape)) for one in weights) == parameters


def test_layouts_are_mxnets() -> None:
    weights, statistics = named(networks.build(NetworkRequest("resnet", 8, 5, (1, 28, 28))))
    shapes = {name: value.shape for name, value in read_values([*weights, *statistics]).items()}
    assert shapes["conv0_weight"] == (16, 1, 3, 3)
    assert shapes["stage2_unit1_sc_weight"] == (32, 16, 1, 1)
    assert shapes["fc1_weight"] == (5, 64)
    assert shapes["bn_data_moving_var"] == (1,)
    assert "bn_data_gamma" not in shapes


def test_values_come_back_from_a_file(tmp_path: Path) -> None:
    request = NetworkRequest("lenet", None, 5, (3, 20, 20))
    first, second = (networks.build(request) for _ in range(2))
    initialize(parse(["--network", "lenet"]), first)
    values = read_values(named(first)[0])
    save_arrays(tmp_path / "p.npz", values)
    assign(named(second)[0], load_arrays(tmp_path / "p.npz"))
    images = tf.random.stateless_normal((3, 20, 20, 3), (1, 2))
    assert np.array_equal(first(images).numpy(), second(images).numpy())


@pytest.mark.parametrize(
    ("change", "message"),
    [({"fc2_bias": None}, "no values for fc2_bias"), ({"fc2_bias": (9,)}, r"fc2_bias is \(9,\)")],
)
def test_values_that_do_not_fit_are_named(
    change: dict[str, tuple[int, ...] | None], message: str
) -> None:
    weights, _ = named(networks.build(NetworkRequest("mlp", None, 5, (1, 8, 8))))
    values = read_values(weights)
    for name, shape in change.items():
        del values[name]
        if shape is not None:
            values[name] = np.zeros(shape, np.float32)
    with pytest.raises(ValueError, match=message):
        assign(weights, values)


@pytest.mark.parametrize("content", [None, b"", b"hello", b"PK\x03\x04"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "weights.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=str(path)):
        load_arrays(path)


@pytest.mark.parametrize("initializer", ["default", *sorted(set(MAKERS) - {"he"})])
def test_every_initializer_is_one(initializer: str) -> None:
    options = parse(["--network", "mlp", "--initializer", initializer])
    models = [networks.build(NetworkRequest("mlp", None, 5, (1, 8, 8))) for _ in range(2)]
    for model in models:
        initialize(options, model)
    first, second = (read_values(named(model)[0]) for model in models)
    assert all(np.isfinite(array).all() for array in first.values())
    assert all(np.array_equal(first[name], second[name]) for name in first)
    if initializer == "default":
        # Fan in is 64: a standard deviation of sqrt(2 / 64).
        assert first["fc1_weight"].std() == pytest.approx(0.177, rel=0.05)
