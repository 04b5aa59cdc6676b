"""The files that a dataset's records lie in; one format a module.

`recordio` is what MXNet reads, `tfrecord` what TensorFlow reads. Pack writes and seal checks
through `interface` alone, so that all else of a dataset is the same in every format.
"""

from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.formats import recordio, tfrecord
from imagenet_workloads.prepare.formats.format import Format

_FORMATS = {format.name: format for format in (recordio.FORMAT, tfrecord.FORMAT)}


def named(name: str) -> Format:
    """The format of a name, such as RecordIO.

    Raises:
        InputError: there is none.
    """
    try:
        return _FORMATS[name]
    except KeyError:
        raise InputError(
            f"there is no format called {name!r}; write {' or '.join(_FORMATS)}"
        ) from None
