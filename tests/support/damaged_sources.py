"""Reads damaged sources, in a process that a library may end or that may hang.

`python -m support.damaged_sources KIND FOLDER FIRST COUNT` damages a source of a kind once for each
seed, and reads it as index and pack do. It prints each seed before, and then how that ended.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.source import Notes
from imagenet_workloads.prepare.sources import volume
from support.parquet_files import hugging_face, plain, rows
from support.pictures import collection
from support.shards import shard, split

BLOCK = 512
IMAGES = collection({"cat": 6, "dog": 5})

FILES: Mapping[str, tuple[str, Callable[[], bytes]]] = {
    "hugging_face": ("x.parquet", lambda: hugging_face(rows(IMAGES), ("dog", "cat"))),
    "zstd": ("x.parquet", lambda: plain(rows(IMAGES), compression="zstd", use_dictionary=False)),
    "pages": (
        "x.parquet",
        lambda: plain(rows(IMAGES), data_page_version="2.0", write_page_index=True),
    ),
    "classes": ("x.tar", lambda: shard({**split()[0], **split()[1]})),
    "json": ("x.tar", lambda: shard({**split()[0], **split()[1]}, "json", "some/folder/")),
}
"""A file of each kind: its name, and its bytes."""

READ, DAMAGED = "read", "damaged"
"""How reading may end: all images were read, or the error names the file."""


def damaged(content: bytes, chance: random.Random, is_tar: bool) -> bytes:
    """Some bytes of a file changed, most of them where it says what it holds; or its end cut."""
    found = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place = _place(found, chance, is_tar)
        found[place] = chance.choice(
            (0, found[place] ^ 1 << chance.randrange(8), chance.randrange(256))
        )
    if is_tar and chance.random() < 0.7:
        _correct_checksums(found)
    if chance.random() < 0.1:
        del found[chance.randrange(len(found)) :]
    return bytes(found)


def _place(content: bytearray, chance: random.Random, is_tar: bool) -> int:
    if chance.random() < 0.3:
        return chance.randrange(len(content))
    if is_tar:
        return chance.choice(_headers(content)) + chance.randrange(BLOCK)
    footer = int.from_bytes(content[-8:-4], "little")
    return chance.randrange(max(0, len(content) - 8 - footer), len(content))


def _headers(content: bytearray) -> list[int]:
    return [p for p in range(0, len(content), BLOCK) if content[p + 257 : p + 262] == b"ustar"] or [
        0
    ]


def _correct_checksums(content: bytearray) -> None:
    """Lets the walk go on to what is damaged."""
    for place in _headers(content):
        content[place + 148 : place + 156] = b" " * 8
        total = sum(content[place : place + BLOCK])
        content[place + 148 : place + 156] = b"%06o\0 " % total


def read(path: Path) -> str:
    """How reading every image of a file ends; errors that do not name it are raised."""
    try:
        with closing(volume.open_source(path)) as source:
            for image in list(source.scan(Notes())):
                source.read(image.name, image.offset, image.size)
    except InputError as error:
        if path.name not in str(error):
            raise
        return DAMAGED
    return READ


def main(kind: str, folder: str, first: str, count: str) -> None:
    name, build = FILES[kind]
    path, content = Path(folder) / name, build()
    ends: Counter[str] = Counter()
    for seed in range(int(first), int(first) + int(count)):
        print(f"{kind}: seed {seed}", flush=True)
        path.write_bytes(damaged(content, random.Random(f"{kind} {seed}"), name.endswith(".tar")))
        ends[read(path)] += 1
    print(*(ends[end] for end in (READ, DAMAGED)))


if __name__ == "__main__":
    main(*sys.argv[1:])
