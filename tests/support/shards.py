"""Shards as WebDataset's TarWriter writes them: a class beside each image."""

import json

from support.pictures import collection, tar

IMAGES = collection({"cat": 4, "dog": 3})


def shard(images: dict[str, str], how: str = "cls", folder: str = "") -> bytes:
    """A shard of images by name with their classes, as WebDataset's TarWriter writes one."""
    files: dict[str, bytes] = {}
    for name, label in images.items():
        stem = f"{folder}{name.partition('.')[0]}"
        if how == "cls":
            files[f"{stem}.cls"] = label.encode()
        files[f"{stem}.jpg"] = IMAGES[label][name]
        if how == "json":
            files[f"{stem}.json"] = json.dumps({"label": label, "width": 32}).encode()
        files[f"{stem}.txt"] = b"a caption"
    return tar(files)


def split() -> tuple[dict[str, str], dict[str, str]]:
    names = {name: label for label, images in IMAGES.items() for name in images}
    mixed = sorted(names, key=lambda name: name[::-1])
    return {n: names[n] for n in mixed[:3]}, {n: names[n] for n in mixed[3:]}
