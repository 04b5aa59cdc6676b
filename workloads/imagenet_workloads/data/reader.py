"""Which reader a command line chooses: `ordered_data`, or ImageRecordIter of MXNet.

Import-light: no framework, no numpy.
"""

from imagenet_spec.program.option import flag
from imagenet_spec.program.train import (
    ONLY_IMAGE_RECORD_ITER,
    ONLY_ORDERED,
    ORDERED,
    AugmentationOptions,
    Options,
)


def is_ordered(options: Options) -> bool:
    """Whether the ordered reader is chosen: it is, unless it lacks an augmentation."""
    if options.data.reader is None:
        return not _asked(options.augmentation, ONLY_IMAGE_RECORD_ITER)
    return options.data.reader == ORDERED


def contradiction(options: Options) -> str | None:
    """Return an error for what the chosen reader lacks; None if it lacks nothing."""
    lacking = _asked(options.augmentation, ONLY_IMAGE_RECORD_ITER)
    if options.data.dataset_url is not None:
        if not is_ordered(options) and options.data.reader is not None:
            return (
                f"argument --reader: only {ORDERED} reads --dataset-url; write --reader {ORDERED}"
            )
        if lacking:
            return (
                f"argument --dataset-url: {ORDERED}, the reader of it, lacks {', '.join(lacking)}; "
                f"leave {'them' if len(lacking) > 1 else 'it'} out"
            )
        return None
    if is_ordered(options):
        reader, instead = ORDERED, "write --reader ImageRecordIter, or leave --reader out"
    else:
        instead = f"leave them out, or {', '.join(lacking) or '--reader'}"
        reader, lacking = "ImageRecordIter", _asked(options.augmentation, ONLY_ORDERED)
    if not lacking:
        return None
    return f"argument --reader: {reader} lacks {', '.join(lacking)}; {instead}"


def _asked(varied: AugmentationOptions, names: tuple[str, ...]) -> list[str]:
    return [flag(name) for name in names if getattr(varied, name)]
