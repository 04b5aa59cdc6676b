"""`imagenetctl run` on a dataset of smaller images, made from a prepared one."""

import json
from pathlib import Path

import yaml

from imagenet_workloads.dataset import read_dataset
from support.pod_subset import REPOSITORY
from support.programs import SCRIPTS, call
from support.tiny_dataset import write_dataset


def test_a_job_makes_a_smaller_dataset_and_trains_on_it(tmp_path: Path) -> None:
    example = yaml.safe_load((REPOSITORY / "examples" / "resize.yaml").read_text())
    digits = yaml.safe_load((REPOSITORY / "examples" / "digits-single.yaml").read_text())
    example["spec"]["training"] = digits["spec"]["training"] | {"epochs": 1}
    example["spec"]["dataset"]["preprocessing"] |= {"resize": 14, "shards": 2}
    volumes = tmp_path / "work" / "volumes"
    sealed = volumes / "imagenet-archives-dataset" / "datasets" / "KEY"
    before = write_dataset(sealed, train=640, validation=100)
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump(example))

    command = ("run", manifest, "--workdir", tmp_path / "work", "--output", "json")
    result = json.loads(call(SCRIPTS / "imagenetctl", *command).splitlines()[-1])

    assert result["validation"]["images"] == 100
    folder = Path(result["dataset"]["folder"])
    assert folder.is_relative_to(volumes / "resize-dataset")
    small, large = read_dataset(folder), read_dataset(before.folder)
    assert small.options["resize"] == 14
    assert small.classes == large.classes
    assert (small.train.images, small.validation.images) == (640, 100)
