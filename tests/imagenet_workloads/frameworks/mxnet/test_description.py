"""Options that do not go together with MXNet, and those that do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from imagenet_spec.program.option import flag
from imagenet_workloads.commands.train import parse
from support.sentences import assert_says

CROP = ["--random-resized-crop", "1"]
GREY = ["--image-shape", "1,28,28"]
OF_TENSORFLOW = ["--framework", "TensorFlow", "--distribution-strategy", "mirrored"]


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--kv-store", "dist"], ("invalid choice: 'dist'",)),
        (["--gc-type", "2bit", "--kv-store", "local"], ("--kv-store local cannot compress",)),
        (
            ["--gc-type", "2bit", "--kv-store", "nccl", "--gpus", "0"],
            ("--kv-store nccl cannot compress",),
        ),
        (
            ["--deterministic", "1", "--kv-store", "dist_async"],
            ("dist_async applies gradients", "as they arrive", "write --kv-store dist_sync"),
        ),
        (
            ["--deterministic", "1", "--reader", "ImageRecordIter"],
            ("ImageRecordIter resumes", "other images", "write --reader Ordered"),
        ),
        (["--deterministic", "1", "--max-random-shear-ratio", "0.1"], ("write --reader Ordered",)),
        (
            ["--deterministic", "1", "--gc-type", "2bit", "--kv-store", "dist_sync"],
            ("--gc-type keeps rounding errors", "no checkpoint"),
        ),
        (["--kv-store", "nccl"], ("nccl adds up over GPUs", "write --gpus", "--kv-store device")),
        (
            [*CROP, "--max-random-aspect-ratio", "1"],
            (
                "1 without --min-random-aspect-ratio",
                "from 1 - 1",
                "not above 0",
                "write --min-random-aspect-ratio",
                "below 1",
            ),
        ),
        (
            [*GREY, "--max-random-h", "1", "--contrast", "0.5"],
            ("--max-random-h, --contrast", "MXNet changes no colours", "1 channel"),
        ),
        (
            [*GREY, "--use-imagenet-data-augmentation", "1"],
            ("leave it out", "write --image-shape 3,28,28"),
        ),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str], facts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse(arguments)
    assert end.value.code == 2
    assert_says(" ".join(capsys.readouterr().err.split()), *facts)


@pytest.mark.parametrize(
    ("others", "augmentation"),
    [
        (CROP, {"max_random_area": 0.5, "min_random_area": 0.5}),
        (CROP, {"min_random_aspect_ratio": 1, "max_random_aspect_ratio": 1}),
        (CROP, {"max_random_aspect_ratio": 0.5}),
        ([*CROP, *OF_TENSORFLOW], {"max_random_aspect_ratio": 1.33}),
        # Without a crop of random size, areas and the smallest aspect ratio have no effect.
        ([], {"max_random_area": 0.5, "min_random_aspect_ratio": 2}),
        ([], {"max_random_aspect_ratio": 1.33}),
        ([*GREY, *CROP], {"max_random_rotate_angle": 9, "brightness": 0}),
        ([*GREY, *OF_TENSORFLOW], {"brightness": 0.5, "saturation": 0.5}),
    ],
)
def test_augmentations_that_go_together_are_taken(
    others: list[str], augmentation: dict[str, float]
) -> None:
    given = [word for name, value in augmentation.items() for word in (flag(name), str(value))]
    parsed = parse([*others, *given]).augmentation
    assert {name: getattr(parsed, name) for name in augmentation} == augmentation


PROGRAM = """
import builtins
import json
import sys
import scipy
from imagenet_workloads.frameworks.mxnet.description import UNUSED, lighten_mxnet

made = []
execute = builtins.exec

def noted(code, names=None, *local):
    caller = sys._getframe(1).f_globals
    if isinstance(code, str) and caller["__name__"].startswith("mxnet."):
        made.append(code.split("(")[0].split()[1])
    execute(code, caller if names is None else names, *local)

builtins.exec = noted
lighten_mxnet()
finders = len(sys.meta_path)
import mxnet as mx
two = mx.nd.concat(mx.nd.ones((1, 2)), mx.nd.zeros((1, 2)), dim=0)
for _ in range(2):
    mx.nd.relu(two - 1)
made_by_then = list(made)
mx.nd.save(sys.argv[1], {"arg:w": two})
drawn = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="last")
lighten_mxnet()
print(json.dumps({
    "unused": [name for name in UNUSED if sys.modules[name] is not None],
    "more finders": len(sys.meta_path) - finders,
    "made": made_by_then,
    "saved": mx.nd.load(sys.argv[1])["arg:w"].asnumpy().tolist(),
    "numpy": float(mx.np.sum(mx.np.ones(3))),
    "name": mx.nd.FullyConnected.__name__,
    "arguments": drawn.list_arguments(),
}))
"""


def test_mxnet_does_without_and_makes_an_operator_once_it_is_called(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "p")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        # What was there before stays.
        "unused": ["scipy"],
        "more finders": 0,
        "made": ["_ones", "_zeros", "concat", "_minus_scalar", "relu"],
        "saved": [[1.0, 1.0], [0.0, 0.0]],
        "numpy": 3.0,
        "name": "FullyConnected",
        "arguments": ["data", "last_weight", "last_bias"],
    }
