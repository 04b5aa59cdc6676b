"""Writes images as Parquet files, as Hugging Face's datasets library does or plainly."""

import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.pictures import Collection

Rows = Sequence[tuple[str, bytes | None]]
"""The class and the bytes of each image."""


def rows(images: Collection) -> list[tuple[str, bytes | None]]:
    """The images of a collection, those of the classes mixed."""
    found = [(base, name, one) for name, of in images.items() for base, one in of.items()]
    return [(name, one) for base, name, one in sorted(found, key=lambda row: row[0][::-1])]


def hugging_face(
    rows: Rows, names: Sequence[str], group: int = 4, labels: Sequence[int] | None = None
) -> bytes:
    """A file as `Dataset.push_to_hub` writes it: a struct of an image, a number of a class.

    Args:
        rows: the images.
        names: of the classes, which the metadata has.
        group: the rows of a row group.
        labels: in place of the classes' numbers.
    """
    features = {
        "image": {"_type": "Image"},
        "label": {"names": list(names), "_type": "ClassLabel"},
        "other": {"dtype": "string", "_type": "Value"},
    }
    images = [None if one is None else {"bytes": one, "path": "x.jpg"} for _, one in rows]
    struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table(
        {
            "other": pa.array(["x"] * len(rows)),
            "image": pa.array(images, struct),
            "label": pa.array(labels or [names.index(name) for name, _ in rows], pa.int64()),
        },
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    return written(table, group)


def plain(rows: Rows, image: str = "jpg", label: str = "cls", **how: Any) -> bytes:
    """A file with a column of bytes and one of names."""
    table = pa.table({label: [name for name, _ in rows], image: [one for _, one in rows]})
    return written(table, 3, **how)


def written(table: pa.Table, group: int, **how: Any) -> bytes:
    """A table as the bytes of a file."""
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=group, **how)
    return file.getvalue()
