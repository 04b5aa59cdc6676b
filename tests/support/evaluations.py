"""Compares the evaluation.json of an attempt with its result, and with the dataset's records."""

import json
from pathlib import Path

import cv2

from imagenet_spec.evaluation import Evaluation, from_json
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.records.split import open_split


def check_evaluation(attempt: Path, dataset: Path) -> Evaluation:
    """Assert that it has each validation image, in the order of the records."""
    found = from_json((attempt / "evaluation.json").read_bytes())
    validation = json.loads((attempt / "result.json").read_text())["validation"]
    assert (found.images, found.right) == (validation["images"], validation["top1Count"])
    sealed = read_dataset(dataset)
    assert tuple(found.classes) == sealed.classes
    records = open_split(sealed.validation, sealed.format, dataset)
    assert list(found.labels) == [records.label(number) for number in range(records.count)]
    records.close()
    shown = [*found.mistakes, *found.suspects, *found.samples]
    assert shown
    for one in shown:
        assert one.thumbnail is not None
        assert cv2.imread(str(attempt / "thumbnails" / one.thumbnail)) is not None
    assert {one.thumbnail for one in shown} == {
        path.name for path in (attempt / "thumbnails").iterdir()
    }
    assert not (attempt / "predictions").exists()
    return found
