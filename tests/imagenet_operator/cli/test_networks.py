"""`imagenetctl networks` shows the table that manifests are checked by."""

import json

import pytest

from imagenet_operator.cli.main import main
from imagenet_spec.resource.frameworks import NETWORKS
from imagenet_spec.resource.networks import Network
from imagenet_spec.rules import broken


def test_every_network_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["networks"]) == 0

    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:1] == ["NETWORK"] and head.split()[-3:] == [
        "MXNet",
        "TensorFlow",
        "PyTorch",
    ]
    cells = {line.split()[0]: line.split()[1:] for line in lines if line}
    assert NETWORKS.keys() <= cells.keys()
    assert cells["densenet"] == ["121,", "161,", "169,", "201", "224", "px", *["yes"] * 3]
    assert cells["vgg-bn"][-3:] == ["yes", "-", "yes"]
    assert cells["mlp"] == ["-", "any", "yes", "yes", "yes"]
    assert "6n+2" in lines[-1]
    assert any(line.startswith("timm/NAME, PyTorch: ") for line in lines)


def test_scripts_get_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["networks", "--output", "json"]) == 0

    records = json.loads(capsys.readouterr().out)
    assert [record["network"] for record in records] == list(NETWORKS)
    resnet = next(record for record in records if record["network"] == "resnet")
    assert resnet["numLayers"] == [18, 34, 50, 101, 152]
    assert resnet["frameworks"] == ["MXNet", "TensorFlow", "PyTorch"]
    for record in records:
        side = max(record["smallestImage"], 224)
        for layers in record["numLayers"] or [None]:
            written = {
                "network": record["network"],
                "numLayers": layers,
                "imageShape": [3, side, side],
            }
            model = Network.model_validate(written)
            assert list(broken(model.rules, model.to_manifest())) == []
