"""The records of a dataset: their formats, written and read, and where each record lies.

A format is one module, which has both its writer and its reader: MXNet's `recordio`, and
TensorFlow's `tfrecord`. All else uses only the interface in `format`. `split` finds
the records of files on a volume, `remote` those of a published dataset.
"""

from imagenet_workloads.errors import InputError
from imagenet_workloads.records import recordio, tfrecord
from imagenet_workloads.records.format import Format

FORMATS = (recordio.FORMAT, tfrecord.FORMAT)
"""A decoder is told a format by its number here."""


def format_named(name: str) -> Format:
    """Return the format of a name, such as RecordIO; InputError if there is none."""
    for format in FORMATS:
        if format.name == name:
            return format
    known = " or ".join(format.name for format in FORMATS)
    raise InputError(f"there is no format called {name!r}; write {known}")
