"""Trees with a training and a validation split, as files by their paths."""

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from imagenet_workloads.prepare import plan as plans
from support.pictures import jpeg, tar, zipped

Files = Mapping[str, bytes]

CLASSES = ("n01", "n02", "n03")
TRAINING = {f"train/{name}/{name}_{n}.JPEG": jpeg(n) for name in CLASSES for n in range(4)}
TORCHVISION = {
    **TRAINING,
    **{f"val/{name}/v_{name}.JPEG": jpeg(90 + n) for n, name in enumerate(CLASSES)},
    "test/t1.JPEG": jpeg(80),
}
# ILSVRC2012 as Kaggle packs it.
KAGGLE = {
    "ILSVRC/Annotations/CLS-LOC/val/v_n01.xml": b"<annotation/>",
    **{f"ILSVRC/Data/CLS-LOC/{name}": image for name, image in TRAINING.items()},
    "ILSVRC/Data/CLS-LOC/test/t1.JPEG": jpeg(80),
    **{f"ILSVRC/Data/CLS-LOC/val/v_{n}.JPEG": jpeg(90 + n) for n in range(3)},
    "ILSVRC/ImageSets/CLS-LOC/train_cls.txt": b"n01/n01_0 1\n",
    "LOC_val_solution.csv": b"ImageId,PredictionString\nv_2,n03 1 2 3 4 \nv_0,n01 1 2\nv_1,n02\n",
}  # fmt: skip
# Kaggle's tree with no file of its own for labels or words.
UNLABELLED = {name: content for name, content in KAGGLE.items() if not name.startswith("LOC")}
TINY = {
    **{f"tiny/train/{n}/images/{n}_{i}.JPEG": jpeg(i) for n in CLASSES for i in range(4)},
    **{f"tiny/val/images/v_{n}.JPEG": jpeg(90 + n) for n in range(3)},
    "tiny/val/val_annotations.txt": b"v_0.JPEG\tn01\t0\t0\t9\t9\nv_1.JPEG\tn02\t0\nv_2.JPEG\tn03\n",
    "tiny/wnids.txt": b"n01\nn02\nn03\n",
}  # fmt: skip
TREES = {"torchvision": TORCHVISION, "kaggle": KAGGLE, "tiny": TINY}


def write_folder(path: Path, files: Files) -> Path:
    """Writes files below a folder."""
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def write_tar(path: Path, files: Files) -> Path:
    """Writes files as a tar."""
    path.write_bytes(tar(files))
    return path


def write_zip(path: Path, files: Files) -> Path:
    """Writes files as a compressed zip."""
    path.write_bytes(zipped(files, zipfile.ZIP_DEFLATED))
    return path


WRITERS: dict[str, Callable[[Path, Files], Path]] = {
    "folder": write_folder,
    "tar": write_tar,
    "zip": write_zip,
}
"""The ways to keep a tree."""


def classes_of(dataset: Path, data: Path, split: str) -> dict[str, str]:
    """The class of each planned image, by the last part of its name."""
    plan = plans.read(data, dataset.name)
    return {
        image.name.rpartition("/")[2]: plan.classes[image.label]
        for shard in plan.shards
        if shard.split == split
        for image in plans.read_images(dataset, shard)
    }
