"""The example of made-up images, trained for real, only smaller."""

import json
from pathlib import Path
from typing import Any

import yaml

from support.programs import run_job

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "synthetic.yaml"
# A tenth of the images and of the batch, one epoch.
SMALLER = 10


def smaller(folder: Path) -> tuple[dict[str, Any], Path]:
    """The example's own manifest with smaller numbers, and its file; nothing else differs."""
    manifest = yaml.safe_load(EXAMPLE.read_text())
    spec = manifest["spec"]
    spec["dataset"]["source"]["synthetic"]["imagesPerClass"] //= SMALLER
    # The default is for ImageNet, and the example's number of images just meets it.
    spec["dataset"]["preprocessing"]["minImagesPerClass"] = 500 // SMALLER
    spec["dataset"]["validation"]["split"]["imagesPerClass"] //= SMALLER
    spec["training"]["batchSize"] = max(2, spec["training"]["batchSize"] // SMALLER // 2 * 2)
    spec["training"]["epochs"] = 1
    spec["training"]["optimizer"]["stepEpochs"] = []
    path = folder / "smaller.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return manifest, path


def test_the_example_of_made_up_images_trains(tmp_path: Path) -> None:
    manifest, path = smaller(tmp_path)
    source = manifest["spec"]["dataset"]["source"]["synthetic"]
    drawn = manifest["spec"]["dataset"]["validation"]["split"]["imagesPerClass"]

    result = run_job(path, tmp_path)

    assert result["validation"]["images"] == source["classes"] * drawn
    sealed = json.loads((Path(result["dataset"]["folder"]) / "dataset.json").read_text())
    assert len(sealed["classes"]) == source["classes"]
    images = source["classes"] * (source["imagesPerClass"] - drawn)
    assert sealed["splits"]["train"]["images"] == images
    # One class in ten is right by chance: the images are made so that there is something to learn.
    assert result["validation"]["top1"] > 0.5
