"""Prediction with a network whose answer is known: the strongest colour of an image.

Real files throughout: a model saved by MXNet, images written by OpenCV.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import mxnet as mx
import numpy as np
import numpy.typing as npt
import pytest

from imagenet_workloads.commands import predict
from imagenet_workloads.errors import InputError
from imagenet_workloads.prediction import Classifier, InputTransform, read_image
from support.pictures import jpeg, tiff, webp, with_exif

RGB = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}
Image = npt.NDArray[np.uint8]


def write_image(path: Path, rgb: tuple[int, int, int], height: int = 40, width: int = 60) -> Path:
    image = np.full((height, width, 3), rgb[::-1], np.uint8)
    assert cv2.imwrite(str(path), image)
    return path


def write_model(folder: Path, epoch: int = 2, outputs: int = 3) -> None:
    """A network that answers with the channel of the highest mean, as `train.result` leaves it."""
    data = mx.sym.Variable("data")
    pooled = mx.sym.Pooling(data, global_pool=True, kernel=(1, 1), pool_type="avg")
    # A BatchNorm, so that there are statistics to load too.
    normal = mx.sym.BatchNorm(pooled, fix_gamma=True, eps=1e-5, name="norm")
    scores = mx.sym.FullyConnected(normal, num_hidden=outputs, no_bias=True, name="fc")
    mx.sym.SoftmaxOutput(scores, name="softmax").save(str(folder / "model-symbol.json"))
    arrays = {
        "arg:fc_weight": mx.nd.array(np.eye(outputs, 3) * 4),
        "arg:norm_gamma": mx.nd.ones(3),
        "arg:norm_beta": mx.nd.zeros(3),
        "aux:norm_moving_mean": mx.nd.zeros(3),
        "aux:norm_moving_var": mx.nd.ones(3),
    }
    mx.nd.save(str(folder / f"model-{epoch:04}.params"), arrays)


RESULT: dict[str, Any] = {
    "job": "colours",
    "model": {"symbol": "model-symbol.json", "params": "model-0002.params"},
    "inputs": {
        "imageShape": [3, 16, 16],
        "mean": [87.0, 87.0, 87.0],
        "std": [80.0, 80.0, 80.0],
        "resize": 24,
    },
}


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    folder = tmp_path / "jobs" / "colours-6d1f" / "attempts" / "r0"
    folder.mkdir(parents=True)
    write_model(folder)
    (folder / "labels.json").write_text(json.dumps(list(RGB)))
    (folder / "result.json").write_text(json.dumps(RESULT))
    return folder


@pytest.mark.parametrize("suffix", ["jpg", "png"])
@pytest.mark.parametrize("colour", RGB)
def test_the_likeliest_class_comes_first(
    attempt: Path, tmp_path: Path, colour: str, suffix: str
) -> None:
    image = write_image(tmp_path / f"image.{suffix}", RGB[colour])
    found = Classifier.load(attempt).classify(image, top=3)
    assert found[0].name == colour
    assert found[0].label == list(RGB).index(colour)
    assert found[0].probability > 0.9
    assert {one.name for one in found} == set(RGB)
    assert sum(one.probability for one in found) == pytest.approx(1, abs=1e-5)
    assert [one.probability for one in found] == sorted(
        (one.probability for one in found), reverse=True
    )


def test_one_classifier_serves_many_images_in_turn(attempt: Path, tmp_path: Path) -> None:
    classifier = Classifier.load(attempt)
    for colour in (*RGB, *reversed(RGB)):
        image = write_image(tmp_path / f"{colour}.png", RGB[colour], height=70, width=24)
        assert [one.name for one in classifier.classify(image, top=1)] == [colour]


@pytest.mark.parametrize("given", ["attempt", "result", "job"])
def test_the_model_is_named_by_its_attempt_its_result_or_its_job(
    attempt: Path, tmp_path: Path, given: str
) -> None:
    job = attempt.parent.parent
    (job / "attempts" / "r1").mkdir()  # One that has not finished.
    path = {"attempt": attempt, "result": attempt / "result.json", "job": job}[given]
    image = write_image(tmp_path / "image.png", RGB["blue"])
    assert Classifier.load(path).classify(image, top=1)[0].name == "blue"


def test_words_of_a_class_are_beside_its_name(
    attempt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ["red", {"class": "green", "words": "grass, lawn"}, "blue"]
    (attempt / "labels.json").write_text(json.dumps(labels))
    image = write_image(tmp_path / "image.png", RGB["green"])
    (found,) = Classifier.load(attempt).classify(image, top=1)
    assert (found.name, found.words) == ("green", "grass, lawn")
    assert predict.main(["--model", str(attempt), str(image), "--top", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("%  green grass")
    assert predict.main(["--model", str(attempt), str(image), "--output", "json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert document["predictions"][0]["words"] == "grass, lawn"
    assert "words" not in document["predictions"][1]


def test_without_names_a_class_is_its_number(attempt: Path, tmp_path: Path) -> None:
    (attempt / "labels.json").unlink()
    image = write_image(tmp_path / "image.png", RGB["green"])
    assert Classifier.load(attempt).classify(image, top=1)[0].name == "1"


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("resize", [0, 64, 100])
@pytest.mark.parametrize(("height", "width"), [(90, 120), (121, 90), (64, 64), (97, 301)])
def test_an_image_is_prepared_as_image_record_iter_does(
    tmp_path: Path, height: int, width: int, resize: int, channels: int
) -> None:
    generator = np.random.default_rng(height * width)
    small = generator.integers(0, 256, (height // 8, width // 8, 3), np.uint8)
    image = cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)
    # PNG, since two JPEG decoders may differ in the last bit.
    done, content = cv2.imencode(".png", image)
    assert done
    record = mx.recordio.MXRecordIO(str(tmp_path / "one.rec"), "w")
    record.write(mx.recordio.pack(mx.recordio.IRHeader(0, 0.0, 0, 0), content.tobytes()))
    record.close()
    mean, std = (123.68, 116.779, 103.939), (58.0, 57.0, 56.5)
    settings = {f"mean_{colour}": value for colour, value in zip("rgb", mean, strict=True)}
    settings |= {f"std_{colour}": value for colour, value in zip("rgb", std, strict=True)}
    more = {"resize": resize} if resize else {}
    batches = mx.io.ImageRecordIter(
        path_imgrec=str(tmp_path / "one.rec"),
        data_shape=(channels, 56, 60),
        batch_size=1,
        **settings,
        **more,
    )
    expected = next(batches).data[0].asnumpy()
    (tmp_path / "one.png").write_bytes(content.tobytes())
    image = read_image(tmp_path / "one.png", channels)
    prepared = InputTransform(channels, 56, 60, mean, std, resize).prepare(image)
    assert prepared.shape == expected.shape == (1, channels, 56, 60)
    # One step of 255, since two builds of OpenCV may round differently.
    np.testing.assert_allclose(prepared, expected, atol=1.01 / 56.5)
    assert np.mean(np.abs(prepared - expected)) < 0.1 / 56.5


@pytest.mark.parametrize(("height", "width"), [(10, 20), (20, 10), (1, 1), (15, 300), (8, 400)])
@pytest.mark.parametrize("resize", [0, 12, 24])
def test_an_image_smaller_than_the_crop_is_enlarged(height: int, width: int, resize: int) -> None:
    inputs = InputTransform(3, 16, 28, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), resize)
    image = np.full((height, width, 3), 7, np.uint8)
    prepared = inputs.prepare(image)
    assert prepared.shape == (1, 3, 16, 28)
    assert (prepared == 7).all()


def test_a_large_image_for_a_network_that_was_validated_on_small_ones_is_a_warning(
    attempt: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inputs = {**RESULT["inputs"], "resize": 0}
    (attempt / "result.json").write_text(json.dumps({**RESULT, "inputs": inputs}))
    image = write_image(tmp_path / "photo.png", RGB["red"], height=375, width=500)
    assert Classifier.load(attempt).classify(image, top=1)[0].name == "red"
    assert "only the central 16 by 16 of its 500 by 375 pixels" in caplog.text


def test_an_image_is_turned_upright(tmp_path: Path) -> None:
    image = np.zeros((10, 20, 3), np.uint8)
    image[:, :10] = (0, 0, 255)  # The left half is red.
    done, content = cv2.imencode(".jpg", image)
    assert done
    # EXIF with the one tag 0x0112 = 6: the first row is the right side.
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    (tmp_path / "turned.jpg").write_bytes(content.tobytes()[:2] + segment + content.tobytes()[2:])
    upright = read_image(tmp_path / "turned.jpg")
    assert upright.shape == (20, 10, 3)
    assert upright[:8, :, 0].min() > 200
    assert upright[12:, :, 0].max() < 50


def test_every_orientation_that_preparation_applies_is_applied(tmp_path: Path) -> None:
    image = np.zeros((10, 20, 3), np.uint8)
    image[:, :10] = (255, 0, 0)
    contents = (
        with_exif(jpeg(0, 10, 20), 6, ">", long=True), webp(image, tiff(6)),
        webp(image, tiff(6, long=True)),
    )  # fmt: skip
    for content in contents:
        (tmp_path / "image").write_bytes(content)
        assert read_image(tmp_path / "image").shape == (20, 10, 3)
        assert read_image(tmp_path / "image", channels=1).shape == (20, 10, 1)
    assert read_image(tmp_path / "image")[:8, :, 0].min() == 255


def test_an_image_of_too_many_pixels_or_a_pipe_is_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cv2, "imdecode", None)
    (tmp_path / "large.ppm").write_bytes(b"P6 20000 10000 255\n")
    with pytest.raises(InputError, match=r"large\.ppm: claims 20000x10000 pixels; at most 128"):
        read_image(tmp_path / "large.ppm")
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path / "pipe", "is a pipe"), (tmp_path, "cannot be read: Is a dir")):
        with pytest.raises(InputError, match=what):
            read_image(path)


def change_result(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "result.json").write_text(json.dumps({**RESULT, **changes}))

    return change


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def fill(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def lose_a_weight(folder: Path) -> None:
    path = str(folder / "model-0002.params")
    arrays = mx.nd.load(path)
    del arrays["aux:norm_moving_var"]
    mx.nd.save(path, arrays)


def misfit(folder: Path) -> None:
    path = str(folder / "model-0002.params")
    mx.nd.save(path, {**mx.nd.load(path), "arg:fc_weight": mx.nd.ones((3, 7))})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("result.json"), "holds no result.json, which a training writes when it is done"),
        (remove("model-symbol.json"), "model-symbol.json: no such file, though result.json"),
        (remove("model-0002.params"), "model-0002.params: no such file, though result.json"),
        (fill("result.json", b"{"), "result.json: is not valid JSON"),
        (fill("labels.json", b'["a", 1, "c"]'), "labels.json: must be a list of class names"),
        (fill("labels.json", b'[{"class": "a"}, "b", "c"]'), "labels.json: words is missing"),
        (fill("labels.json", b'["a"]'), "names 1 classes, but the network of"),
        (fill("model-0002.params", b"abc"), "model-0002.params: cannot be loaded"),
        (fill("model-symbol.json", b"{}"), "cannot be loaded"),
        (lose_a_weight, "model-0002.params: holds no values for norm_moving_var"),
        (misfit, "cannot be loaded"),
        (change_result(inputs={}), "result.json: inputs.imageShape is missing"),
        (
            change_result(inputs={**RESULT["inputs"], "imageShape": [2, 28, 28]}),
            "inputs.imageShape must be 1 or 3 channels, height, width, not [2, 28, 28]",
        ),
        (
            change_result(model={"symbol": "../../x", "params": "y"}),
            "model.symbol must be the name of a file in this folder, not '../../x'",
        ),
    ],
    # Functions have no name that every process of the test run agrees on.
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_result_is_one_message(
    attempt: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(attempt)
    with pytest.raises(InputError) as caught:
        Classifier.load(attempt)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_prints_names_and_probabilities(
    attempt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = [str(write_image(tmp_path / f"{name}.png", RGB[name])) for name in ("red", "blue")]
    assert predict.main(["--model", str(attempt), *images, "--top", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == images[0]
    assert lines[1].endswith("%  red")
    assert len(lines) == 6
    assert lines[3] == images[1]
    assert lines[4].endswith("%  blue")


def test_the_command_prints_json(
    attempt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = str(write_image(tmp_path / "image.png", RGB["green"]))
    assert predict.main(["--model", str(attempt), image, "--output", "json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert document["image"] == image
    assert len(document["predictions"]) == 3, "no more than there are"
    assert document["predictions"][0]["class"] == "green"
    assert document["predictions"][0]["label"] == 1
    assert document["predictions"][0]["probability"] > 0.9


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is no image that OpenCV can read"),
        (b"GIF89a no more", "is no image that OpenCV can read"),
    ],
)
def test_an_image_that_is_none_ends_the_command(
    attempt: Path,
    tmp_path: Path,
    content: bytes | None,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    image = tmp_path / "image.jpg"
    if content is not None:
        image.write_bytes(content)
    assert predict.main(["--model", str(attempt), str(image)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith(f"imagenet-predict: error: {image}: {message}\n")


@pytest.mark.parametrize("output", ["text", "json"])
def test_all_images_that_are_none_are_named_in_one_go(
    attempt: Path, tmp_path: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write_image(tmp_path / "good.png", RGB["red"])
    (tmp_path / "empty.jpg").touch()
    images = [tmp_path / "gone.jpg", good, tmp_path / "empty.jpg"]
    arguments = ["--model", str(attempt), "--output", output, *map(str, images)]
    assert predict.main(arguments) == 3
    captured = capsys.readouterr()
    assert captured.err.endswith(
        "imagenet-predict: error: 2 of 3 images cannot be classified\n"
        f"  {images[0]}: cannot be read: No such file or directory\n"
        f"  {images[2]}: is no image that OpenCV can read\n"
    )
    if output == "json":
        (document,) = json.loads(captured.out)
        assert document["image"] == str(good)
    else:
        assert captured.out.startswith(str(good))


def test_top_counts_from_one(attempt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        predict.main(["--model", str(attempt), "x.jpg", "--top", "0"])
    assert caught.value.code == 2
    assert "'0' is not a whole number of at least 1" in capsys.readouterr().err
