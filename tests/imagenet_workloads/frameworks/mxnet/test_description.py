"""Options that do not go together with MXNet, and those that do."""

import pytest

from imagenet_workloads.commands.train import parse

CROP = ["--random-resized-crop", "1"]
GREY = ["--image-shape", "1,28,28"]
OF_TENSORFLOW = ["--framework", "TensorFlow", "--distribution-strategy", "mirrored"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kv-store", "dist"], "invalid choice: 'dist'"),
        (["--gc-type", "2bit", "--kv-store", "local"], "--kv-store local cannot compress"),
        (
            ["--gc-type", "2bit", "--kv-store", "nccl", "--gpus", "0"],
            "--kv-store nccl cannot compress",
        ),
        (["--kv-store", "nccl"], "nccl adds up over GPUs; write --gpus, or --kv-store device"),
        (
            [*CROP, "--max-random-aspect-ratio", "1"],
            "1 without --min-random-aspect-ratio is a change, to ratios from 1 - 1, which is not "
            "above 0: write --min-random-aspect-ratio too, or a change below 1",
        ),
        (
            [*GREY, "--max-random-h", "1", "--contrast", "0.5"],
            "argument --max-random-h, --contrast: MXNet changes no colours of images of 1 channel",
        ),
        (
            [*GREY, "--use-imagenet-data-augmentation", "1"],
            "leave it out, or write --image-shape 3,28,28",
        ),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse(arguments)
    assert end.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "arguments",
    [
        [*CROP, "--max-random-area", "0.5", "--min-random-area", "0.5"],
        [*CROP, "--min-random-aspect-ratio", "1", "--max-random-aspect-ratio", "1"],
        [*CROP, "--max-random-aspect-ratio", "0.5"],
        [*CROP, *OF_TENSORFLOW, "--max-random-aspect-ratio", "1.33"],
        # Without a crop of random size, areas and the smallest aspect ratio have no effect.
        ["--max-random-area", "0.5", "--min-random-aspect-ratio", "2"],
        ["--max-random-aspect-ratio", "1.33"],
        [*GREY, *CROP, "--max-random-rotate-angle", "9", "--brightness", "0"],
        [*GREY, *OF_TENSORFLOW, "--brightness", "0.5", "--saturation", "0.5"],
    ],
)
def test_variations_that_work_are_taken(arguments: list[str]) -> None:
    parse(arguments)
