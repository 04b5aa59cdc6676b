"""evaluation.json: what a trained model says of each validation image.

The last validation writes it beside the model. Model cards and pages of a training read it alone:
no image and no dataset is needed for them. Columns are numbers of a fixed width, little-endian and
in base64: 1,000 classes take 11 bytes an image.
"""

import base64
import binascii
import json
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import eq
from typing import Any

VERSION = 1

CERTAIN = (1 << 16) - 1
"""Probability 1; probabilities are whole numbers from 0 to this."""

# How many images are shown at most.
MISTAKES, SUSPECTS, SAMPLES = 24, 24, 12
SHOWN_MAXIMUM = MISTAKES + SUSPECTS + SAMPLES


@dataclass(frozen=True)
class ShownImage:
    """An image that a page shows.

    Attributes:
        index: Its position in the validation split, from 0.
        name: The file's name in the source; None if the dataset does not know it.
        thumbnail: The name of its file in the folder `THUMBNAILS_FOLDER` beside evaluation.json;
            None without one.
    """

    index: int
    name: str | None = None
    thumbnail: str | None = None


@dataclass(frozen=True)
class Evaluation:
    """The content of evaluation.json; `index` is an image's position in the validation split.

    Attributes:
        epoch: The finished epochs of the model.
        classes: The names by label.
        words: What people call each class; empty texts if unknown.
        labels: (images,), the class of each image, from 0.
        predictions: (images,), the likeliest class by the model.
        label_probabilities: (images,), the probability of the label, 0..CERTAIN; 0 if the model
            gave no number.
        prediction_probabilities: (images,), likewise of the prediction.
        mistakes: The worst wrong predictions, the worst first.
        suspects: The likeliest wrong labels, the likeliest first.
        samples: Some right predictions, of different classes.
    """

    job: str
    epoch: int
    classes: Sequence[str]
    words: Sequence[str]
    labels: Sequence[int]
    predictions: Sequence[int]
    label_probabilities: Sequence[int]
    prediction_probabilities: Sequence[int]
    mistakes: Sequence[ShownImage] = ()
    suspects: Sequence[ShownImage] = ()
    samples: Sequence[ShownImage] = ()

    @property
    def images(self) -> int:
        return len(self.labels)

    @property
    def right(self) -> int:
        return sum(map(eq, self.labels, self.predictions))

    def label_probability(self, index: int) -> float:
        """From 0 to 1, as the following."""
        return self.label_probabilities[index] / CERTAIN

    def prediction_probability(self, index: int) -> float:
        return self.prediction_probabilities[index] / CERTAIN


@dataclass(frozen=True)
class ClassAccuracy:
    """How many images of a class are predicted right."""

    label: int
    images: int
    right: int

    @property
    def accuracy(self) -> float | None:
        return self.right / self.images if self.images else None


@dataclass(frozen=True)
class Confusion:
    """How many images of class `label` are predicted as the class `prediction`."""

    label: int
    prediction: int
    images: int


def accuracy_by_class(evaluation: Evaluation) -> list[ClassAccuracy]:
    """Return the accuracies by label."""
    images = Counter(evaluation.labels)
    right = Counter(_pairs(evaluation, right=True))
    return [
        ClassAccuracy(label, images[label], right[label, label])
        for label in range(len(evaluation.classes))
    ]


def worst_classes(evaluation: Evaluation) -> list[ClassAccuracy]:
    """Return the accuracy of each class that has images, the lowest first."""
    with_images = (one for one in accuracy_by_class(evaluation) if one.images)
    return sorted(with_images, key=lambda one: (one.right / one.images, -one.images, one.label))


def confusions(evaluation: Evaluation) -> list[Confusion]:
    """Return the pairs of classes that are confused, the most frequent first."""
    wrong = Counter(_pairs(evaluation, right=False))
    ordered = sorted(wrong.items(), key=lambda pair: (-pair[1], pair[0]))
    return [Confusion(label, prediction, images) for (label, prediction), images in ordered]


def find_mistakes(evaluation: Evaluation) -> list[int]:
    """Return the indices of the wrong predictions, the lowest probability of the label first."""
    return sorted(
        (
            index
            for index, (label, prediction) in enumerate(_both(evaluation))
            if label != prediction
        ),
        key=lambda index: (
            evaluation.label_probabilities[index],
            -evaluation.prediction_probabilities[index],
            index,
        ),
    )


def find_suspects(evaluation: Evaluation) -> list[int]:
    """Return the indices of the images whose labels may be wrong, the likeliest first.

    This is confident learning (Northcutt, Jiang and Chuang, "Confident Learning: Estimating
    Uncertainty in Dataset Labels", Journal of Artificial Intelligence Research 70, 2021). The
    threshold of a class is its mean self-confidence: the mean probability of the class over the
    images with that label. An image is off the diagonal of the confident joint if the probability
    of another class reaches the threshold of that class. Of the classes that do, the paper takes
    the likeliest; here that is the prediction, as no other class's probability is kept. The order
    is the paper's normalised margin: probability of the label minus that of the prediction.
    """
    images = Counter(evaluation.labels)
    confidence = [0] * len(evaluation.classes)
    for label, probability in zip(evaluation.labels, evaluation.label_probabilities, strict=True):
        confidence[label] += probability
    found = []
    for index, (label, prediction) in enumerate(_both(evaluation)):
        if label == prediction or not images[prediction]:
            continue
        probability = evaluation.prediction_probabilities[index]
        # In whole numbers, so that the order of a sum has no influence.
        if probability * images[prediction] >= confidence[prediction]:
            margin = evaluation.label_probabilities[index] - probability
            found.append((margin, index))
    return [index for _, index in sorted(found)]


def find_samples(evaluation: Evaluation, most: int = SAMPLES) -> list[int]:
    """Return the indices of at most so many right predictions, each of another class.

    It is the first image of each class; the classes are spread evenly over those that have one.
    """
    first: dict[int, int] = {}
    for index, (label, prediction) in enumerate(_both(evaluation)):
        if label == prediction and label not in first:
            first[label] = index
    labels = sorted(first)
    count = min(most, len(labels))
    return [first[labels[place * len(labels) // count]] for place in range(count)]


def to_json(evaluation: Evaluation) -> str:
    """Return the content of evaluation.json.

    Raises:
        ValueError: A label or prediction is no class, a probability is out of range, or columns
            differ in length.
    """
    _check(evaluation)
    code = _label_code(len(evaluation.classes))
    document = {
        "version": VERSION,
        "job": evaluation.job,
        "epoch": evaluation.epoch,
        "classes": list(evaluation.classes),
        "words": list(evaluation.words),
        "images": evaluation.images,
        "labels": _encoded(code, evaluation.labels),
        "predictions": _encoded(code, evaluation.predictions),
        "labelProbabilities": _encoded("H", evaluation.label_probabilities),
        "predictionProbabilities": _encoded("H", evaluation.prediction_probabilities),
    }
    for name in ("mistakes", "suspects", "samples"):
        document[name] = [
            {"index": one.index, "name": one.name, "thumbnail": one.thumbnail}
            for one in getattr(evaluation, name)
        ]
    return json.dumps(document, separators=(",", ":")) + "\n"


def from_json(text: str | bytes) -> Evaluation:
    """Parse the content of evaluation.json.

    Raises:
        ValueError: It is damaged, or of a later version; the message names the field.
    """
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("is not valid JSON: its values are nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError("must be a JSON object")
    version = _number(document, "version")
    if version != VERSION:
        raise ValueError(f"version {version} is unknown; this program reads version {VERSION}")
    classes, images = _texts(document, "classes"), _number(document, "images")
    code = _label_code(len(classes))
    evaluation = Evaluation(
        job=_text(document, "job"),
        epoch=_number(document, "epoch"),
        classes=classes,
        words=_texts(document, "words"),
        labels=_decoded(document, "labels", code, images),
        predictions=_decoded(document, "predictions", code, images),
        label_probabilities=_decoded(document, "labelProbabilities", "H", images),
        prediction_probabilities=_decoded(document, "predictionProbabilities", "H", images),
        mistakes=_shown(document, "mistakes", images),
        suspects=_shown(document, "suspects", images),
        samples=_shown(document, "samples", images),
    )
    _check(evaluation)
    return evaluation


def _both(evaluation: Evaluation) -> Iterable[tuple[int, int]]:
    return zip(evaluation.labels, evaluation.predictions, strict=True)


def _pairs(evaluation: Evaluation, *, right: bool) -> Iterable[tuple[int, int]]:
    return (pair for pair in _both(evaluation) if (pair[0] == pair[1]) == right)


def _check(evaluation: Evaluation) -> None:
    """Raise a ValueError if the columns do not fit together."""
    classes = len(evaluation.classes)
    if len(evaluation.words) != classes:
        raise ValueError(f"words has {len(evaluation.words)} entries for {classes} classes")
    for name, column, largest in (
        ("labels", evaluation.labels, classes - 1),
        ("predictions", evaluation.predictions, classes - 1),
        ("labelProbabilities", evaluation.label_probabilities, CERTAIN),
        ("predictionProbabilities", evaluation.prediction_probabilities, CERTAIN),
    ):
        if len(column) != evaluation.images:
            raise ValueError(f"{name} has {len(column)} entries for {evaluation.images} images")
        if column and not (min(column) >= 0 and max(column) <= largest):
            raise ValueError(f"{name} must be from 0 to {largest}")


def _label_code(classes: int) -> str:
    """Return the type code of `array` for labels: of 1, 2 or 4 bytes."""
    return "B" if classes <= 1 << 8 else "H" if classes <= 1 << 16 else "I"


def _encoded(code: str, values: Sequence[int]) -> str:
    return base64.b64encode(_little_endian(array(code, values)).tobytes()).decode()


def _decoded(document: dict[str, Any], name: str, code: str, images: int) -> Sequence[int]:
    values = array(code)
    try:
        content = base64.b64decode(_text(document, name), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{name} is not valid base64: {error}") from None
    if len(content) != images * values.itemsize:
        raise ValueError(
            f"{name} has {len(content)} bytes; {images} images need {images * values.itemsize}"
        )
    values.frombytes(content)
    return _little_endian(values)


def _little_endian(values: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _field(document: dict[str, Any], name: str) -> Any:
    if name not in document:
        raise ValueError(f"{name} is missing")
    return document[name]


def _number(document: dict[str, Any], name: str) -> int:
    value = _field(document, name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be a whole number of at least 0")
    return value


def _text(document: dict[str, Any], name: str) -> str:
    value = _field(document, name)
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string")
    return value


def _texts(document: dict[str, Any], name: str) -> list[str]:
    values = _field(document, name)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name} must be a list of strings")
    return values


def _shown(document: dict[str, Any], name: str, images: int) -> Sequence[ShownImage]:
    found = []
    entries = _field(document, name)
    if not isinstance(entries, list) or len(entries) > SHOWN_MAXIMUM:
        raise ValueError(f"{name} must be a list of at most {SHOWN_MAXIMUM}")
    for place, entry in enumerate(entries):
        where = f"{name}[{place}]"
        if not isinstance(entry, dict):
            raise ValueError(f"{where} must be an object")
        try:
            index = _number(entry, "index")
            title, file = (
                None if entry.get(key) is None else _text(entry, key)
                for key in ("name", "thumbnail")
            )
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        if index >= images:
            raise ValueError(f"{where}: index {index} is not below the {images} images")
        # A page reads this file: it must not lead out of the folder.
        if file is not None and (file in ("", ".", "..") or "/" in file or "\0" in file):
            raise ValueError(f"{where}: thumbnail must be the name of a file, not {file!r}")
        found.append(ShownImage(index, title, file))
    return found
