"""Where raw images come from: one module for each kind, all behind `source.SourceKind`.

None extracts anything: a scan yields where each image lies, and `pack` reads it there. A further
kind adds its module and one line to `KINDS`.
"""

from argparse import ArgumentParser, Namespace

from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.sources.source import Source, SourceKind, Validation
from imagenet_workloads.prepare.sources.synthetic import SyntheticKind
from imagenet_workloads.prepare.sources.volume import VolumeKind

KINDS: tuple[SourceKind, ...] = (
    VolumeKind(),
    SyntheticKind(),
)


def add_index_options(parser: ArgumentParser) -> None:
    """Adds the options by which imagenet-index opens a source of any kind."""
    for kind in KINDS:
        kind.add_index_options(parser)


def add_pack_options(parser: ArgumentParser) -> None:
    """Adds the options by which imagenet-pack opens a planned source again."""
    for kind in KINDS:
        kind.add_pack_options(parser)


def mistake(parsed: Namespace) -> str | None:
    """What is wrong with the options of imagenet-index, if anything is."""
    if len(_given(parsed)) != 1:
        *others, last = (kind.options for kind in KINDS)
        return f"give either {', '.join(others)} or {last}"
    return next(filter(None, (kind.mistake(parsed) for kind in KINDS)), None)


def open_source(parsed: Namespace) -> Source:
    """Opens the source that imagenet-index was given.

    Args:
        parsed: options without a `mistake`.

    Raises:
        InputError: there is no such source, or it is of no known layout.
    """
    (kind,) = _given(parsed)
    return kind.open(parsed)


def open_validation(parsed: Namespace) -> Validation | None:
    """Opens the validation images that imagenet-index was given; None without any.

    Raises:
        InputError: there are no such images.
    """
    return next(filter(None, (kind.open_validation(parsed) for kind in KINDS)), None)


def open_planned(planned: Fields, parsed: Namespace) -> Source:
    """Opens a source of a plan.

    Args:
        planned: what `Source.to_document` said.
        parsed: the options of imagenet-pack.

    Raises:
        InputError: no kind has such sources, an option is missing, or the source has changed.
    """
    name = planned.text("kind")
    kinds = [kind for kind in KINDS if name in kind.planned_as]
    if not kinds:
        raise planned.wrong("kind", f"{name} is of no source that this program knows")
    # A plan says how a source is laid out; the options say where it lies.
    given = (kind for kind in kinds if kind.is_given_again(parsed))
    return next(given, kinds[0]).open_planned(planned, parsed)


def _given(parsed: Namespace) -> list[SourceKind]:
    return [kind for kind in KINDS if kind.is_given(parsed)]
