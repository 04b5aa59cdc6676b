"""The way of a picture in result.json: written, read again, and refused if it is another one."""

import json
from typing import Any

import pytest

from imagenet_workloads.data.inputs import Inputs, choose_inputs, plain_inputs
from imagenet_workloads.dataset import Dataset, Packing, Split, WriterVersion
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.train.command_line import parse
from support.sentences import says

MEAN, STD = (120.0, 110.0, 100.0), (60.0, 61.0, 62.0)
SMALL, COPIED = Packing(36, 90, "planes"), Packing(None, 95, "opencv")
LAST = ["centerCrop", "normalize", "layout"]


@pytest.mark.parametrize(
    ("inputs", "steps"),
    [
        (Inputs((3, 32, 32), MEAN, STD, 0, (SMALL,)), ["decode", "resize", "jpeg", *LAST]),
        (Inputs((3, 32, 32), MEAN, STD, 0, (COPIED,)), ["decode", "jpeg", *LAST]),
        (
            Inputs((3, 224, 224), MEAN, STD, 256, (Packing(480, 90, "planes"), COPIED)),
            ["decode", "resize", "jpeg", "jpeg", "resize", *LAST],
        ),
        (Inputs((1, 28, 28), MEAN, STD, 0, (SMALL,)), ["decode", "resize", "jpeg", "grey", *LAST]),
        (Inputs((3, 28, 28), MEAN, STD, 32), ["decode", "resize", "resize", *LAST]),
        (
            Inputs((3, 28, 28), MEAN, STD, 32, (SMALL,), antialias=False),
            ["decode", "resize", "jpeg", "resize", *LAST],
        ),
        (plain_inputs((3, 8, 8)), ["decode", *LAST]),
    ],
    ids=str,
)
def test_what_is_written_is_read_again(inputs: Inputs, steps: list[str]) -> None:
    document = json.loads(json.dumps(inputs.document()))
    assert [step["step"] for step in document["steps"]] == steps
    assert Inputs.read(Fields(document, "result.json: inputs")) == inputs
    # A later version may say more of a step.
    document["steps"][0]["colourSpace"] = "sRGB"
    assert Inputs.read(Fields(document, "result.json: inputs")) == inputs


def test_an_older_result_has_no_steps() -> None:
    document = Inputs((3, 28, 28), MEAN, STD, 32, (SMALL,)).document()
    del document["steps"]
    expected = Inputs((3, 28, 28), MEAN, STD, 32, packings=None, antialias=False)
    assert Inputs.read(Fields(document, "result.json: inputs")) == expected


@pytest.mark.parametrize(
    ("number", "change", "message"),
    [
        (1, {"filter": "lanczos"}, "steps[1] has filter 'lanczos', and this program does 'linear'"),
        (4, {"mean": [1, 2, 3]}, "steps[4] has mean [1, 2, 3], and this program does [120.0"),
        (3, {"step": "fiveCrops"}, "steps[3] has step 'fiveCrops', and this program does 'cen"),
        (1, {"shorterEdge": 0}, "steps[1].shorterEdge must be a whole number of at least 1, not 0"),
        (None, {"step": "gamma"}, "steps has 7 steps, and this program knows 6"),
    ],
)
def test_a_step_that_is_not_done_here_is_refused(
    number: int | None, change: dict[str, Any], message: str
) -> None:
    document = Inputs((3, 32, 32), MEAN, STD, 0, (SMALL,)).document()
    if number is None:
        document["steps"].append(change)
    else:
        document["steps"][number] |= change
    with pytest.raises(InputError) as caught:
        Inputs.read(Fields(document, "result.json: inputs"))
    assert message in str(caught.value)


def test_pixels_cannot_be_divided_by_a_std_of_0() -> None:
    none = Split(0, ())
    dataset = Dataset("k", WriterVersion("2", "opencv"), {}, ("a",), none, none, MEAN, (1, 0, 1))
    with pytest.raises(InputError, match=says("dataset k", "std is 0", "green", "--rgb-std 1,1,1")):
        choose_inputs(parse([], {}), dataset)
    assert choose_inputs(parse(["--rgb-std", "2,2,2"], {}), dataset).std == (2, 2, 2)


@pytest.mark.parametrize(
    ("options", "before", "packings"),
    [
        ({}, None, None),
        ({"resize": 36}, None, None),
        ({"resize": None, "quality": 90}, None, (Packing(None, 90, "opencv"),)),
        ({"resize": 36, "quality": 80}, None, (Packing(36, 80, "opencv"),)),
        (
            {"resize": None, "quality": 80},
            [{"resize": 480, "quality": 90, "codec": "planes"}],
            (Packing(480, 90, "planes"), Packing(None, 80, "opencv")),
        ),
        ({"resize": 36, "quality": 80}, "unknown", None),
    ],
)
def test_the_dataset_says_how_its_images_were_packed(
    options: dict[str, Any], before: Any, packings: tuple[Packing, ...] | None
) -> None:
    written = Dataset(
        "0" * 32,
        WriterVersion("2", "opencv"),
        options,
        ("a",),
        Split(0, ()),
        Split(0, ()),
        MEAN,
        STD,
    )
    document = json.loads(written.to_json()) | ({} if before is None else {"packedBefore": before})
    dataset = Dataset.from_json(json.dumps(document))
    assert dataset.packings == packings
    assert Dataset.from_json(dataset.to_json()) == dataset
    inputs = Inputs((3, 28, 28), MEAN, STD, 0, dataset.packings)
    unknown = {"step": "resize", "by": "packing", "shorterEdge": "unknown"}
    assert (unknown in inputs.document()["steps"]) == (packings is None)
