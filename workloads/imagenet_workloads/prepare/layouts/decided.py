"""A source whose layout is decided by its whole listing, which is kept in an unnamed file.

The listing is read once, and spooled. Then the layout is decided, and the images of both splits
come from the spool.
"""

import logging
import marshal
import os
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.entry_names import TRAINING, VALIDATION
from imagenet_workloads.prepare.layouts import decide as decisions
from imagenet_workloads.prepare.layouts import devkit
from imagenet_workloads.prepare.layouts.choice import Choice
from imagenet_workloads.prepare.layouts.decide import FLAT, SAMPLES, Decision, Part
from imagenet_workloads.prepare.layouts.devkit import annotations_folder
from imagenet_workloads.prepare.layouts.survey import Survey
from imagenet_workloads.prepare.source import (
    Annotations,
    Image,
    Journal,
    Listing,
    Location,
    Naming,
    Notes,
    Source,
    Validation,
)
from imagenet_workloads.prepare.stores.blob import LabelFile, readable

_log = logging.getLogger(__name__)

# An image in the spool: its label, path, offset, size and time.
_Spooled = tuple[str, str, int, int, int]
# Images that are written and read together.
_OF_BLOCK = 256
_REPORT_EVERY = 1000
# A write lets other threads go on, and those that list archives take their time: so few writes.
_BUFFER = 1 << 18
# Of a name: four bytes an image.
_HASH = 0xFFFFFFFF


class DecidedSource(Source):
    """The training images of a listed source; `own_validation` opens its validation images."""

    def __init__(self, listing: Listing, choice: Choice | None = None) -> None:
        self.where = listing.where
        self.reads_at_once = listing.reads_at_once
        self.version = listing.version
        self._listing = listing
        self._choice = choice or Choice()
        self._decision: Decision | None = None
        self._spool: _Spool | None = None
        self._validation_images: _Split | None = None
        self._given_validation: Callable[[], Validation | None] | None = None
        self._given_words: LabelFile | None = None
        self._words: LabelFile | None = None
        self._is_fresh = False

    @property
    def kind(self) -> str:  # type: ignore[override]
        part = self.decision.parts[TRAINING]
        return self._listing.kind_of(is_flat=part.by == FLAT, has_labels=part.by == SAMPLES)

    @property
    def decision(self) -> Decision:
        """How the images are read; lists the source if that is not done yet."""
        if self._decision is None:
            for _ in self.scan(Notes()):
                pass
            self._is_fresh = self._decision is not None
        if self._decision is None:
            raise InputError(f"{self.where}: holds neither images nor archives of images")
        return self._decision

    @property
    def said(self) -> str:  # type: ignore[override]
        return self.decision.said

    @property
    def warnings(self) -> Sequence[str]:  # type: ignore[override]
        return self.decision.warnings

    @property
    def own_validation(self) -> Callable[[], Validation | None] | None:
        if self._given_validation is not None:
            return self._given_validation
        part = self.decision.parts.get(VALIDATION)
        if part is None or self._validation_images is None:
            return None
        split = self._validation_images
        return lambda: Validation(_ValidationSource(self, self._listing, part, split), part.labels)

    @own_validation.setter
    def own_validation(self, given: Callable[[], Validation | None] | None) -> None:
        self._given_validation = given

    @property
    def own_words(self) -> LabelFile | None:
        """The file beside a tree with the words of its classes."""
        if self._given_words is None and self._words is None and self.decision.has_splits:
            part = self.decision.parts.get(VALIDATION) or self.decision.parts[TRAINING]
            self._words = devkit.words(self._listing.file, part.of)
        return self._given_words or self._words

    @own_words.setter
    def own_words(self, given: LabelFile | None) -> None:
        self._given_words = given

    @property
    def own_annotations(self) -> Annotations | None:  # type: ignore[override]
        """The annotations beside the images of Kaggle's tree."""
        folder = annotations_folder(self.decision.parts[TRAINING].of)
        return None if folder is None else self._listing.annotations(folder)

    @property
    def identity(self) -> Mapping[str, Any] | None:
        return self._listing.identity

    @property
    def lists_at_once(self) -> int:
        return self._listing.lists_at_once

    @property
    def journal(self) -> Journal:
        return self._listing.journal

    @journal.setter
    def journal(self, journal: Journal) -> None:
        self._listing.journal = journal

    def scan(self, notes: Notes) -> Iterator[Image]:
        """Lists the source, decides, and yields the training images in their order."""
        if self._is_fresh and self._decision is not None and self._spool is not None:
            self._is_fresh = False
            training = _Split(self._spool, self._naming(self._decision.parts[TRAINING]))
            for image in self._spool.images():
                placed = self._decision.place(image[1], image[0])
                if placed.split == TRAINING:
                    yield training.named(image, placed.class_name)
            return
        survey, spool = self._list(notes)
        if self._spool is not None:
            self._spool.close()
        self._spool = spool
        if not len(spool):
            return
        decision = decisions.decide(survey, self._choice)
        for path in survey.beside:
            decision.leave_out(decisions.BESIDE_ARCHIVES, path)
        training = _Split(spool, self._naming(decision.parts[TRAINING]))
        part = decision.parts.get(VALIDATION)
        validation = None if part is None else _Split(spool, self._naming(part))
        place, images = decision.place, len(spool)
        for number, image in enumerate(spool.images()):
            notes.share = number / images
            placed = place(image[1], image[0])
            if placed.split == TRAINING:
                yield training.named(image, placed.class_name)
            elif placed.split == VALIDATION and validation is not None:
                validation.add(number, placed.class_name)
        self._validation_images = validation
        decision.check()
        self._decision = decision
        self.where = _where(self._listing, decision.parts[TRAINING])
        classes = decision.classes
        notes.empty = [
            name
            for path in notes.empty
            if (name := decision.empty_class(path)) not in ("", *classes)
        ]
        notes.left_out = {rule.name: found for rule, found in decision.left_out.items()}
        if survey.unlisted:
            notes.left_out[decisions.UNLISTED.name] = len(survey.unlisted), survey.unlisted[0]
        if survey.hidden:
            notes.left_out[decisions.HIDDEN.name] = len(survey.hidden), next(iter(survey.hidden))

    def _list(self, notes: Notes) -> "tuple[Survey, _Spool]":
        self._listing.reads_at_once = self.reads_at_once
        spool = _Spool(self.scratch)
        survey = Survey(self._listing.where, self._listing.file, spool.paths)
        survey.start, survey.remedy = self._listing.start, self._listing.remedy
        survey.place, survey.contents.below = self._listing.place, self._listing.below
        notes.survey = survey
        number = 0
        # Of archives, which may hold a name twice; a folder cannot.
        hashes = array("I")
        may_repeat = not self._listing.strips
        for number, image in enumerate(self._listing.scan(notes), 1):
            spool.add(image)
            label, path, _, size, _ = image
            if may_repeat:
                hashes.append(hash(path) & _HASH)
            survey.add_image(path, size, label)
            if number % _REPORT_EVERY == 0 and notes.report is not None:
                notes.reported = True
                notes.report(_REPORT_EVERY, notes.share)
        spool.finish()
        self._require_different(hashes, spool)
        notes.survey = None
        if number and notes.report is not None:
            notes.reported = True
            notes.report(number % _REPORT_EVERY, 1.0)
        return survey, spool

    def _require_different(self, hashes: "array[int]", spool: "_Spool") -> None:
        """Checks that no name comes twice: an archive that was appended to may hold one so."""
        found = np.frombuffer(hashes, np.uint32) if hashes else np.empty(0, np.uint32)
        found.sort()
        same = found[1:][found[1:] == found[:-1]]
        if not len(same):
            return
        # Most of these are different names with one hash.
        twice = {int(one) for one in same}
        seen: set[str] = set()
        for name, _, _ in spool.paths():
            if hash(name) & _HASH in twice and name in seen:
                raise InputError(
                    f"{self.where}: holds {readable(name)} twice; which one is meant is not clear: "
                    "unpack the archive, which keeps the last one, and make it again"
                )
            if hash(name) & _HASH in twice:
                seen.add(name)

    def scan_in_turn(self, notes: Notes) -> Iterator[Image]:
        return self._listing.scan_in_turn(notes)

    def require_classes(self) -> None:
        if not self._choice.layout:
            self.decision.require_classes()

    def read(self, name: str, offset: int, size: int) -> bytes:
        if self._decision is not None:
            name = self._naming(self._decision.parts[TRAINING]).path(name)
        return self._listing.read(name, offset, size)

    def close(self) -> None:
        self._listing.close()
        if self._spool is not None:
            self._spool.close()

    def to_document(self) -> dict[str, Any]:
        version = {"version": dict(self.version)} if self.version else {}
        fields = self._fields(self.decision.parts[TRAINING])
        return {"kind": self.kind, **fields, **self.plan_fields, **version}

    def _naming(self, part: Part) -> Naming:
        return self._listing.naming(part.roots, has_labels=part.by == SAMPLES)

    def _fields(self, part: Part) -> Mapping[str, Any]:
        """What finds the images of a part below what the options name."""
        folder = self._naming(part).removed.rstrip("/")
        within = folder.removeprefix(self._listing.start).lstrip("/")
        if within:
            return {"within": within}
        return self._listing.fields_of_split(part.roots) if self.decision.has_splits else {}


class _ValidationSource(Source):
    def __init__(
        self, source: DecidedSource, listing: Listing, part: Part, split: "_Split"
    ) -> None:
        self.kind = listing.kind_of(is_flat=part.by == FLAT, has_labels=part.by == SAMPLES)
        self.where = _where(listing, part)
        self.plan_fields = {**source._fields(part), **source.plan_fields}
        self.version = source.version
        self.reads_at_once = source.reads_at_once
        self.limit = source.limit
        self._listing = listing
        self._split = split

    def scan(self, notes: Notes) -> Iterator[Image]:
        return self._split.images()

    def read(self, name: str, offset: int, size: int) -> bytes:
        return self._listing.read(self._split.naming.path(name), offset, size)

    def requests_to_read(self, locations: Iterable[Location]) -> tuple[int, int]:
        return self._listing.requests_to_read(locations)


def _where(listing: Listing, part: Part) -> str:
    is_below = listing.strips and len(part.roots) == 1
    return listing.place(part.roots[0]) if is_below else listing.where


class _Spool:
    """The images of a listing in an unnamed file, numbered in their order."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = Path(tempfile.gettempdir()) if folder is None else folder
        with files.storage_errors(self._folder):
            self._file: IO[bytes] = tempfile.TemporaryFile(  # noqa: SIM115
                dir=self._folder, buffering=_BUFFER
            )
        self._blocks = array("Q", [0])
        self._last: list[Image] = []

    def __len__(self) -> int:
        return (len(self._blocks) - 1) * _OF_BLOCK + len(self._last)

    def add(self, image: Image) -> None:
        self._last.append(image)
        if len(self._last) == _OF_BLOCK:
            # Nobody else reads or writes the file, and this takes a third of the time of struct.
            block = marshal.dumps([*map(tuple, self._last)])
            try:
                self._file.write(block)
            except OSError as error:
                files.explain(self._folder, error)
            self._blocks.append(self._blocks[-1] + len(block))
            self._last = []

    def finish(self) -> None:
        with files.storage_errors(self._folder):
            self._file.flush()

    def images(self) -> Iterator[_Spooled]:
        return chain.from_iterable(map(self.block, range(len(self._blocks))))

    def block(self, number: int) -> Sequence[_Spooled]:
        """The images from number `number * _OF_BLOCK` on."""
        if number + 1 == len(self._blocks):
            return self._last
        start, end = self._blocks[number : number + 2]
        found: list[_Spooled] = marshal.loads(os.pread(self._file.fileno(), end - start, start))
        return found

    def paths(self) -> Iterator[tuple[str, int, str]]:
        return ((path, size, label) for label, path, _, size, _ in self.images())

    def close(self) -> None:
        self._file.close()


class _Split:
    """The images of a split in a spool: 8 bytes each."""

    def __init__(self, spool: _Spool, naming: Naming) -> None:
        self.naming = naming
        self._start = len(naming.removed)
        self._spool = spool
        self._images = array("I")
        self._classes = array("I")
        self._numbers: dict[str, int] = {}

    def add(self, number: int, class_name: str) -> None:
        self._images.append(number)
        self._classes.append(self._numbers.setdefault(class_name, len(self._numbers)))

    def named(self, image: _Spooled, class_name: str) -> Image:
        """An image with its class, by its name in the split."""
        _, path, offset, size, time = image
        return Image(class_name, self.naming.added + path[self._start :], offset, size, time)

    def images(self) -> Iterator[Image]:
        names = list(self._numbers)
        known, block = -1, self._spool.block(0)
        for image, number in zip(self._images, self._classes, strict=True):
            if image // _OF_BLOCK != known:
                known = image // _OF_BLOCK
                block = self._spool.block(known)
            yield self.named(block[image % _OF_BLOCK], names[number])
