"""The formats of a dataset's files: one module each.

MXNet reads `recordio`, and TensorFlow reads `tfrecord`. Pack and seal use only the interface in
`format`, so everything else is the same in every format.
"""

from imagenet_workloads.errors import InputError
from imagenet_workloads.records import recordio, tfrecord
from imagenet_workloads.records.format import Format

_FORMATS = {format.name: format for format in (recordio.FORMAT, tfrecord.FORMAT)}


def format_named(name: str) -> Format:
    """Return the format of a name, such as RecordIO.

    Raises:
        InputError: There is none.
    """
    try:
        return _FORMATS[name]
    except KeyError:
        raise InputError(
            f"there is no format called {name!r}; write {' or '.join(_FORMATS)}"
        ) from None
