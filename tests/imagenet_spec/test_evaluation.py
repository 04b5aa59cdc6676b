import json
import random
import time
from dataclasses import replace
from typing import Any

import pytest

from imagenet_spec.evaluation import (
    CERTAIN,
    ClassAccuracy,
    Confusion,
    Evaluation,
    ShownImage,
    accuracy_by_class,
    confusions,
    find_mistakes,
    find_samples,
    find_suspects,
    from_json,
    to_json,
    worst_classes,
)


def _evaluation(*images: tuple[int, int, float, float], classes: int = 3) -> Evaluation:
    """Return that of images: label, prediction, and the probability of each."""
    return Evaluation(
        "digits",
        12,
        [f"class {label}" for label in range(classes)],
        [""] * classes,
        [label for label, _, _, _ in images],
        [prediction for _, prediction, _, _ in images],
        [round(CERTAIN * probability) for _, _, probability, _ in images],
        [round(CERTAIN * probability) for _, _, _, probability in images],
    )


SOME = _evaluation(
    (0, 0, 0.9, 0.9),
    (0, 1, 0.3, 0.6),
    (0, 1, 0.01, 0.98),
    (1, 1, 0.8, 0.8),
    (1, 0, 0.1, 0.5),
    (1, 1, 0.6, 0.6),
)


def _random(images: int, classes: int) -> Evaluation:
    draw = random.Random(images)
    return replace(
        _evaluation(classes=classes),
        labels=[draw.randrange(classes) for _ in range(images)],
        predictions=[draw.randrange(classes) for _ in range(images)],
        label_probabilities=[draw.randrange(CERTAIN + 1) for _ in range(images)],
        prediction_probabilities=[draw.randrange(CERTAIN + 1) for _ in range(images)],
    )


@pytest.mark.parametrize("classes", [1, 256, 257, 65536, 65537])
def test_round_trip(classes: int) -> None:
    written = _random(100, classes)
    written = replace(
        written,
        mistakes=[ShownImage(3, 'a "b"\n|\u202e.jpg', "00003.jpg"), ShownImage(99)],
        samples=[ShownImage(0, "not UTF-8 \udcff")],
    )
    found = from_json(to_json(written).encode())
    for name in ("labels", "predictions", "label_probabilities", "prediction_probabilities"):
        assert list(getattr(found, name)) == getattr(written, name)
        found = replace(found, **{name: getattr(written, name)})
    assert found == replace(written, suspects=[])


def test_no_images() -> None:
    found = from_json(to_json(_evaluation()))
    assert found.images == found.right == 0
    assert (find_mistakes(found), find_suspects(found), find_samples(found)) == ([], [], [])
    assert (worst_classes(found), confusions(found)) == ([], [])


def test_one_million_images_take_less_than_20_mb() -> None:
    classes, images = 21_841, 1_000_000
    numbers, half = [21_840] * images, [CERTAIN // 2] * images
    large = Evaluation(
        "imagenet-21k",
        90,
        [f"n{label:08}" for label in range(classes)],
        ["a class with several names, as WordNet has them"] * classes,
        numbers,
        numbers,
        half,
        half,
        [ShownImage(index, "n" * 255, "t" * 20) for index in range(60)],
    )
    text = to_json(large)
    assert len(text.encode()) < 20_000_000
    begun = time.process_time()
    assert from_json(text).images == images
    assert time.process_time() - begun < 5


def test_accuracy_by_class() -> None:
    assert accuracy_by_class(SOME) == [
        ClassAccuracy(0, 3, 1),
        ClassAccuracy(1, 3, 2),
        ClassAccuracy(2, 0, 0),
    ]
    assert [one.accuracy for one in accuracy_by_class(SOME)] == [1 / 3, 2 / 3, None]
    assert [one.label for one in worst_classes(SOME)] == [0, 1]
    assert SOME.right == 3


def test_confusions_by_frequency_then_label() -> None:
    several = _evaluation(*[(0, 1, 0, 1)] * 2, (2, 1, 0, 1), (1, 2, 0, 1), (1, 1, 1, 1))
    assert confusions(several) == [Confusion(0, 1, 2), Confusion(1, 2, 1), Confusion(2, 1, 1)]


def test_mistakes_by_probability_of_label() -> None:
    assert find_mistakes(SOME) == [2, 4, 1]


def test_suspects_reach_the_mean_self_confidence() -> None:
    # The mean self-confidence is 0.403 of class 0, 0.5 of class 1.
    assert find_suspects(SOME) == [2, 4, 1]
    below = replace(SOME, prediction_probabilities=[*SOME.prediction_probabilities])
    below.prediction_probabilities[1] = CERTAIN * 49 // 100  # type: ignore[index]
    assert find_suspects(below) == [2, 4]


def test_a_class_without_images_makes_no_suspect() -> None:
    assert find_suspects(_evaluation((0, 2, 0.01, 0.99))) == []


def test_suspects_find_labels_that_were_changed() -> None:
    draw = random.Random(0)
    images = []
    for index in range(1000):
        shown = draw.randrange(3)
        confidence = draw.uniform(0.7, 1)
        label = (shown + 1) % 3 if index < 30 else shown
        images.append((label, shown, confidence if label == shown else 0.02, confidence))
    found = find_suspects(_evaluation(*images))
    assert set(found) <= set(range(30))
    assert len(found) > 10


def test_samples_are_right_and_of_different_classes() -> None:
    assert find_samples(SOME) == [0, 3]
    many = _evaluation(*[(label, label, 1, 1) for label in range(100)], classes=100)
    assert find_samples(many, 4) == [0, 25, 50, 75]


def _damaged(**fields: Any) -> str:
    document = json.loads(to_json(replace(SOME, mistakes=[ShownImage(2, None, "2.jpg")])))
    document.update(fields)
    return json.dumps({name: value for name, value in document.items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not valid JSON"),
        ("[" * 200_000, "nested too deeply"),
        ("[]", "must be a JSON object"),
        (_damaged(version=2), "version 2 is unknown"),
        (_damaged(version=...), "version is missing"),
        (_damaged(images=True), "images must be a whole number"),
        (_damaged(images=7), "labels has 6 bytes; 7 images need 7"),
        (_damaged(labels="%"), "labels is not valid base64"),
        (_damaged(labels="é"), "labels is not valid base64"),
        (_damaged(labels=3), "labels must be a string"),
        (_damaged(predictions="AwMDAwMD"), "predictions must be from 0 to 2"),
        (_damaged(labelProbabilities="AAA="), "labelProbabilities has 2 bytes"),
        (_damaged(classes=["a", 1, "c"]), "classes must be a list of strings"),
        (_damaged(words=[]), "words has 0 entries for 3 classes"),
        (_damaged(mistakes={}), "mistakes must be a list"),
        (_damaged(mistakes=[{"index": 0}] * 61), "mistakes must be a list of at most 60"),
        (_damaged(mistakes=[1]), "mistakes[0] must be an object"),
        (_damaged(mistakes=[{"index": 6}]), "mistakes[0]: index 6 is not below the 6 images"),
        (_damaged(mistakes=[{"index": 0, "name": 1}]), "mistakes[0]: name must be a string"),
        (_damaged(samples=[{"index": 0, "thumbnail": "../x"}]), "must be the name of a file"),
    ],
)
def test_damaged_file(text: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        from_json(text)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_cannot_be_written() -> None:
    for change in ({"labels": [3] * 6}, {"labels": [0] * 5}, {"label_probabilities": [-1] * 6}):
        with pytest.raises(ValueError):
            to_json(replace(SOME, **change))  # type: ignore[arg-type]


def test_unknown_fields_are_ignored() -> None:
    assert from_json(_damaged(later=1)).images == 6
