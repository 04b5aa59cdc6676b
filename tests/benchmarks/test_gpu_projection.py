"""GPU-hours that are projected from speeds, and the stall of checkpoints: the arithmetic."""

from dataclasses import replace
from typing import Any

import pytest
import yaml
from benchmarks.gpu import projection
from benchmarks.gpu.projection import NINETY, SIXTEEN, THIRTY_TWO, Recipe, Speeds, interpolated
from benchmarks.gpu.stall import stall

from support.chart import REPOSITORY
from support.sentences import assert_says


@pytest.mark.parametrize(
    ("speeds", "size", "expected"),
    [
        ({160: 8000.0, 224: 4000.0}, 160, 8000.0),
        ({160: 8000.0, 224: 4000.0}, 224, 4000.0),
        # (192² - 160²) / (224² - 160²) = 0.458: 1/8000 of 0.542 and 1/4000 of 0.458.
        ({160: 8000.0, 224: 4000.0}, 192, 5485.7),
        # In proportion to the pixels outside.
        ({160: 8000.0, 224: 4000.0}, 256, 3062.5),
        ({224: 4000.0}, 112, 16000.0),
    ],
)
def test_a_speed_between_two_sizes_follows_the_pixels(
    speeds: dict[int, float], size: int, expected: float
) -> None:
    assert interpolated(speeds, size) == pytest.approx(expected, rel=1e-4)


FAST = Speeds({160: 12_000, 224: 6_500}, {192: 6_000}, {8: 7_000, 16: 14_000}, {8: 11_000})
HOUR = 3600


@pytest.mark.parametrize(
    ("recipe", "cores", "hours", "limits"),
    [
        # 25 epochs at 7,000 (reading), 7 at 7,000 (192 computes at 8,589); validation of
        # 32 x 50,000 at 7,000.
        (THIRTY_TWO, 8, 32 * (1_281_167 + 50_000) / 7_000 / HOUR, "reading"),
        (
            THIRTY_TWO,
            16,
            (1_281_167 * (25 / 12_000 + 7 / 8_603.0) + 1_600_000 / 9_953) / HOUR,
            "computing",
        ),
        (SIXTEEN, 8, 16 * (1_281_167 + 50_000) / 7_000 / HOUR, "reading"),
        (
            Recipe("192 eager", THIRTY_TWO.stages, 256, frozenset({192})),
            8,
            (1_281_167 * (25 / 7_000 + 7 / 6_000) + 1_600_000 / 7_000) / HOUR,
            "160: reading, 192: computing",
        ),
        (NINETY, 8, 90 * (1_281_167 / 6_500 + 50_000 / 7_000) / HOUR, "computing"),
    ],
)
def test_each_image_takes_the_longer_of_reading_and_computing(
    recipe: Recipe, cores: int, hours: float, limits: str
) -> None:
    found = projection.project(recipe, FAST, cores)
    assert found is not None
    assert found.hours == pytest.approx(hours, rel=2e-3)
    assert found.limit() == limits


@pytest.mark.parametrize(
    ("recipe", "epochs", "sizes"),
    [(SIXTEEN, 16, {160, 192}), (THIRTY_TWO, 32, {160, 192}), (NINETY, 90, {224})],
)
def test_a_recipe_has_its_epochs(recipe: Recipe, epochs: int, sizes: set[int]) -> None:
    assert recipe.epochs == epochs
    assert {size for size, _ in recipe.stages} == sizes


def test_what_would_help_is_said_where_smaller_images_gain_nothing() -> None:
    said = projection.help_for(THIRTY_TWO, FAST, 8)
    assert said is not None
    assert_says(said, "on 8 cores", "smaller images gain nothing", "reading limits: 7,000")
    # 12,000 / (7,000 / 8)
    assert_says(said, "About 14 cores", "of 160 pixels records of that size")
    slow = replace(FAST, small_reading={8: 7_000.0})
    assert "records of that size" not in str(projection.help_for(THIRTY_TWO, slow, 8))
    assert projection.help_for(THIRTY_TWO, FAST, 16) is None


def test_the_tables_have_the_card_the_aims_and_what_others_have_published() -> None:
    text = projection.tables(FAST, "a card")
    assert "**projected** for a card" in text
    assert "| 32 epochs, 160 to 192 | not run | 1.69 | reading | 1.07 | computing |" in text
    assert "| at most 2.0 GPU-hours on 8 cores | reached: 1.69 on a card |" in text
    assert "| MLPerf Training v3.0, MXNet, to the target | 0.759 | 8 H100 | 13.5 | 1.80 |" in text
    assert "| ffcv, 32 epochs, 160 to 192 | 0.766 | 8 A100 | 28.7 | 3.83 |" in text
    slow = projection.tables(Speeds(FAST.compiled, {}, {8: 3_000.0}, {}), "a card")
    assert "| at most 2.0 GPU-hours on 8 cores | **missed**: 3.94 on a card |" in slow
    assert "| at most 1.4 GPU-hours on 16 cores | not run |" in slow
    assert "| 32 epochs, 160 to 192, 192 eager | not run | not run |  | not run |  |" in slow
    nothing = projection.tables(Speeds({}, {}, {}, {}), "no GPU")
    assert nothing.count("| not run | not run |") == len(projection.RECIPES)


def progress(time: float, epoch: int = 0) -> dict[str, Any]:
    return {"event": "progress", "epoch": epoch, "time": time}


def saved(time: float, seconds: float, batch: int = 5) -> dict[str, Any]:
    return {"event": "checkpoint", "time": time, "seconds": seconds, "batch": batch}


def steps(first: float, durations: list[float], epoch: int = 0) -> list[dict[str, Any]]:
    times = [first]
    for one in durations:
        times.append(times[-1] + one)
    return [progress(time, epoch) for time in times]


def test_a_stall_is_what_the_steps_beside_a_checkpoint_take_above_the_median() -> None:
    # The checkpoint begins in the fourth step, and ends in the fifth. The tenth after it hashes.
    events = steps(0.0, [1.0] * 3 + [1.5, 1.25] + [1.0] * 9 + [1.25] + [1.0] * 6)
    found = stall([*events, saved(5.0, 1.9)])
    assert found is not None
    assert (found.checkpoints, found.median, found.longest) == (1, 1.0, 1.5)
    assert found.seconds == pytest.approx(1.0)
    assert found.part == pytest.approx(0.1)


def test_a_step_is_within_an_epoch_and_a_checkpoint_after_one_does_not_count() -> None:
    first = steps(0.0, [1.0, 1.0])
    later = steps(50.0, [1.0, 1.0, 3.0, *[1.0] * 20], epoch=1)
    found = stall([*first, saved(2.5, 0.1, batch=0), *later, saved(54.5, 1.0)])
    assert found is not None
    assert (found.checkpoints, found.longest) == (1, 3.0)
    assert found.seconds == pytest.approx(2.0)
    assert stall(first) is None


def test_the_recipe_is_that_of_the_example() -> None:
    example = yaml.safe_load((REPOSITORY / "examples/imagenet-resnet50-fast.yaml").read_text())
    training = example["spec"]["training"]
    sizes = training["model"]["imageSizes"]
    ends = [*(one["epoch"] for one in sizes[1:]), training["epochs"]]
    stages = [(one["size"], end - one["epoch"]) for one, end in zip(sizes, ends, strict=True)]
    assert tuple(stages) == SIXTEEN.stages
    assert training["model"]["validationSize"] == SIXTEEN.validation_size
