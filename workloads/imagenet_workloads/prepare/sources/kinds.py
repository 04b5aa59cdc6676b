"""The kinds of sources: one module each, each a `SourceKind`.

No kind extracts an archive: a scan yields the location of each image, and `pack` reads it there. A
new kind adds a module and one line to `KINDS`.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from imagenet_workloads.clients import TRAFFIC
from imagenet_workloads.errors import of_field
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.layouts import choice as choices
from imagenet_workloads.prepare.source import Source, Validation
from imagenet_workloads.prepare.sources.cache import FileToFetch
from imagenet_workloads.prepare.sources.http import HttpKind
from imagenet_workloads.prepare.sources.hugging_face import HuggingFaceKind
from imagenet_workloads.prepare.sources.kaggle import KaggleKind
from imagenet_workloads.prepare.sources.kind import RemoteKind, SourceKind
from imagenet_workloads.prepare.sources.prepared import PreparedKind
from imagenet_workloads.prepare.sources.s3 import S3Kind
from imagenet_workloads.prepare.sources.synthetic import SyntheticKind
from imagenet_workloads.prepare.sources.volume import VolumeKind
from imagenet_workloads.prepare.stores.blob import Blob, LabelFile

KINDS: tuple[SourceKind, ...] = (
    VolumeKind(),
    SyntheticKind(),
    HttpKind(),
    S3Kind(),
    HuggingFaceKind(),
    KaggleKind(),
    PreparedKind(),
)

REMOTE_KINDS = tuple(kind for kind in KINDS if isinstance(kind, RemoteKind))


def mistake(parsed: Namespace) -> str | None:
    """The mistake in the options of imagenet-index; None without one."""
    if len(_given(parsed)) != 1:
        *others, last = (kind.options for kind in KINDS)
        return f"give either {', '.join(others)} or {last}"
    if parsed.cache is not None and not isinstance(_given(parsed)[0], RemoteKind):
        return "--cache goes with files of a server or a bucket"
    wrong = choices.mistake(parsed)
    return wrong or next(filter(None, (kind.mistake(parsed) for kind in KINDS)), None)


def mistake_of_fetch(parsed: Namespace) -> str | None:
    """The mistake in the options of imagenet-fetch; None without one."""
    given = [kind for kind in REMOTE_KINDS if kind.is_given(parsed)]
    if len(given) != 1:
        return f"give either {' or '.join(kind.options for kind in REMOTE_KINDS)}"
    return given[0].mistake(parsed)


def files_to_fetch(parsed: Namespace) -> Sequence[FileToFetch]:
    """The files in the options of imagenet-fetch, which have no `mistake_of_fetch`."""
    (kind,) = (kind for kind in REMOTE_KINDS if kind.is_given(parsed))
    return kind.files_to_fetch(parsed)


def naming_remote(parsed: Namespace) -> AbstractContextManager[None]:
    """Has an `InputError` about a remote source begin with its field of the manifest."""
    given = [kind.name for kind in REMOTE_KINDS if kind.is_given(parsed)]
    return of_field(f"spec.dataset.source.{given[0]}") if given else nullcontext()


def open_source(parsed: Namespace) -> Source:
    """Opens the source in the options of imagenet-index, which have no `mistake`."""
    (kind,) = _given(parsed)
    with naming_remote(parsed):
        return kind.open(parsed)


def open_validation(parsed: Namespace) -> Validation | None:
    """Opens the validation images in the options of imagenet-index; None without any."""
    return next(filter(None, (kind.open_validation(parsed) for kind in KINDS)), None)


def class_words(parsed: Namespace) -> LabelFile | None:
    """The file of the source with the words of the classes; None if no option names one."""
    with of_field("source.classWords"):
        return next(filter(None, (kind.class_words(parsed) for kind in KINDS)), None)


def bounding_boxes(parsed: Namespace) -> Sequence[Callable[[], Blob]]:
    """What opens each archive of annotations that an option names."""
    return [archive for kind in KINDS for archive in kind.bounding_boxes(parsed)]


def open_planned(planned: Fields, parsed: Namespace) -> Source:
    """Opens a source of a plan for imagenet-pack, from what `Source.to_document` made."""
    name = planned.text("kind")
    kinds = [kind for kind in KINDS if name in kind.planned_as]
    if not kinds:
        raise planned.wrong("kind", f"{name} is not a kind of source")
    # The plan holds the layout of a source, the options its location.
    given = (kind for kind in kinds if kind.is_given_again(parsed))
    return next(given, kinds[0]).open_planned(planned, parsed)


def report_traffic(report: Callable[[int, int], None]) -> None:
    """Has a function called with the requests and bytes of remote sources from now on."""
    TRAFFIC.report_to(report)


def _given(parsed: Namespace) -> list[SourceKind]:
    return [kind for kind in KINDS if kind.is_given(parsed)]
