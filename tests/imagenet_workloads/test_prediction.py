"""Prediction with a network whose answer is known: the strongest colour of an image.

Real files throughout: a model saved by MXNet, images written by OpenCV.
"""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import mxnet as mx
import numpy as np
import numpy.typing as npt
import pytest

from imagenet_workloads.commands import predict
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.dataset import Packing
from imagenet_workloads.errors import InputError
from imagenet_workloads.prediction import Classifier, decode_image, prepare, read_file
from support.pictures import jpeg, png, tiff, webp, with_exif
from support.sentences import assert_says

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


@pytest.mark.parametrize("given", ["attempt", "result", "job", "workdir"])
def test_the_model_is_named_by_its_attempt_its_result_or_its_job(
    attempt: Path, tmp_path: Path, given: str
) -> None:
    job = attempt.parent.parent
    (job / "attempts" / "r1").mkdir()  # One that has not finished.
    # As imagenetctl leaves it in a working directory.
    (tmp_path / "work/jobs/colours").mkdir(parents=True)
    (tmp_path / "work/jobs/colours/model").symlink_to(attempt)
    path = {
        "attempt": attempt,
        "result": attempt / "result.json",
        "job": job,
        "workdir": tmp_path / "work/jobs/colours",
    }[given]
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
    inputs = Inputs((channels, 56, 60), mean, std, resize, antialias=False)
    prepared = prepare(content.tobytes(), "one.png", inputs)
    assert prepared.shape == expected.shape == (1, channels, 56, 60)
    # One step of 255, since two builds of OpenCV may round differently.
    np.testing.assert_allclose(prepared, expected, atol=1.01 / 56.5)
    assert np.mean(np.abs(prepared - expected)) < 0.1 / 56.5


@pytest.mark.parametrize(("height", "width"), [(10, 20), (20, 10), (1, 1), (15, 300), (8, 400)])
@pytest.mark.parametrize("resize", [0, 12, 24])
def test_an_image_smaller_than_the_crop_is_enlarged(height: int, width: int, resize: int) -> None:
    inputs = Inputs((3, 16, 28), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), resize, ())
    image = png(np.full((height, width, 3), 7, np.uint8))
    prepared = prepare(image, "small.png", inputs)
    assert prepared.shape == (1, 3, 16, 28)
    assert (prepared == 7).all()


@pytest.mark.parametrize(
    ("packings", "resize", "message"),
    [
        (None, 0, "validation did not resize"),
        ((Packing(None, 90, "opencv"),), 0, "neither preparation nor validation resized"),
        ((Packing(24, 90, "opencv"),), 0, None),
        ((Packing(None, 90, "opencv"),), 24, None),
    ],
)
def test_a_large_image_of_which_the_centre_is_looked_at_is_a_warning(
    attempt: Path,
    tmp_path: Path,
    packings: tuple[Packing, ...] | None,
    resize: int,
    message: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Red in the middle, green around it: only what is not resized is red."""
    inputs = Inputs((3, 16, 16), (87.0,) * 3, (80.0,) * 3, resize, packings)
    change_result(inputs=inputs.document())(attempt)
    pixels = np.full((375, 500, 3), RGB["green"], np.uint8)
    pixels[175:200, 237:263] = RGB["red"]
    (tmp_path / "photo.png").write_bytes(png(pixels))
    classifier = Classifier.load(attempt)
    for _ in range(2):
        (found,) = classifier.classify(tmp_path / "photo.png", top=1)
        assert found.name == ("green" if message is None else "red")
    warnings = [one for one in caplog.messages if "only the central 16 by 16 of its 500" in one]
    assert len(warnings) == (message is not None)
    assert message is None or message in warnings[0]
    says_unknown = any("does not say to which size" in one for one in caplog.messages)
    assert says_unknown == (packings is None)


def test_a_folder_is_all_its_images(
    attempt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = tmp_path / "photos"
    (photos / "b" / ".cache").mkdir(parents=True)
    write_image(photos / "b" / "2.png", RGB["blue"])
    write_image(photos / "1.jpg", RGB["red"])
    write_image(photos / "b" / ".cache" / "3.png", RGB["red"])
    (photos / "notes.txt").write_text("of the holidays")
    arguments = ["--model", str(attempt), "--output", "json", str(photos)]
    assert predict.main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["image"], one["predictions"][0]["class"]) for one in found] == [
        (str(photos / "1.jpg"), "red"),
        (str(photos / "b/2.png"), "blue"),
    ]
    (photos / "b" / "0.jpg").write_bytes(b"no image")
    assert predict.main(arguments) == 1
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)) == 2
    assert f"imagenet-predict: error: {photos}/b/0.jpg: is no image" in captured.err
    assert predict.main(["--model", str(attempt), str(photos / "b" / ".cache" / "..")]) == 1
    assert predict.main(["--model", str(attempt), str(attempt)]) == 3
    assert_says(capsys.readouterr().err, f"{attempt}: ", "no file", "name of an image")


@pytest.mark.parametrize(
    ("options", "heading"),
    [
        ((), ["image", "class", "probability"]),
        (("--top", "2"), ["image", "class", "probability", "class_2", "probability_2"]),
        # There are three classes.
        (("--top", "9"), ["image", "class", "probability", "class_2", "probability_2", "class_3",
                          "probability_3"]),
    ],
)  # fmt: skip
def test_a_table_has_one_row_an_image(
    attempt: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    heading: list[str],
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    names = ['a "b", c.png', "two\nlines.png", "zoë.png"]
    for name in names:
        # OpenCV cannot write all of these names.
        write_image(photos / "new.png", RGB["green"]).rename(photos / name)
    arguments = ["--model", str(attempt), "--output", "csv", str(photos), *options]
    assert predict.main(arguments) == 0
    first, *rows = csv.reader(io.StringIO(capsys.readouterr().out))
    assert first == heading
    assert [row[0] for row in rows] == [str(photos / name) for name in names]
    for row in rows:
        assert row[1] == "green" and 0.9 < float(row[2]) <= 1
        assert len(row) == len(heading)


def test_a_damaged_image_has_no_row_and_is_named(
    attempt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    write_image(photos / "2.png", RGB["red"])
    (photos / "1.png").write_bytes(b"no image")
    arguments = ["--model", str(attempt), "--output", "csv", str(photos)]
    assert predict.main(arguments) == 1
    captured = capsys.readouterr()
    assert [line.split(",")[:2] for line in captured.out.splitlines()[1:]] == [
        [str(photos / "2.png"), "red"]
    ]
    assert f"{photos}/1.png" in captured.err


def test_a_table_has_the_bytes_of_a_name_that_is_no_text(attempt: Path, tmp_path: Path) -> None:
    name = tmp_path / os.fsdecode(b"caf\xe9.png")
    write_image(tmp_path / "new.png", RGB["blue"]).rename(name)
    program = Path(sys.executable).with_name("imagenet-predict")
    command = [str(program), "--model", str(attempt), "--output", "csv", str(name)]
    finished = subprocess.run(
        command, capture_output=True, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"}
    )
    assert b"/caf\xe9.png,blue," in finished.stdout


def test_a_truncated_jpeg_is_damaged_as_in_preparation(attempt: Path) -> None:
    inputs = Inputs((3, 16, 16), (87.0,) * 3, (80.0,) * 3, 0, (Packing(24, 90, "opencv"),))
    with pytest.raises(InputError, match=r"photo\.jpg: .*[Pp]remature end of JPEG"):
        prepare(jpeg(0, 200, 300)[:-500], "photo.jpg", inputs)


def test_an_image_is_turned_upright(tmp_path: Path) -> None:
    image = np.zeros((10, 20, 3), np.uint8)
    image[:, :10] = (0, 0, 255)  # The left half is red.
    done, content = cv2.imencode(".jpg", image)
    assert done
    # EXIF with the one tag 0x0112 = 6: the first row is the right side.
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    (tmp_path / "turned.jpg").write_bytes(content.tobytes()[:2] + segment + content.tobytes()[2:])
    upright = decode_image((tmp_path / "turned.jpg").read_bytes(), "turned.jpg", 3)
    assert upright.shape == (20, 10, 3)
    assert upright[:8, :, 0].min() > 200
    assert upright[12:, :, 0].max() < 50


def test_every_orientation_that_preparation_applies_is_applied() -> None:
    image = np.zeros((10, 20, 3), np.uint8)
    image[:, :10] = (255, 0, 0)
    contents = (
        with_exif(jpeg(0, 10, 20), 6, ">", long=True), webp(image, tiff(6)),
        webp(image, tiff(6, long=True)),
    )  # fmt: skip
    for content in contents:
        assert decode_image(content, "image", 3).shape == (20, 10, 3)
        assert decode_image(content, "image", 1).shape == (20, 10, 1)
    assert decode_image(content, "image", 3)[:8, :, 0].min() == 255


def test_an_image_of_too_many_pixels_or_a_pipe_is_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cv2, "imdecode", None)
    for packings in (None, (Packing(36, 90, "opencv"),)):
        inputs = Inputs((3, 16, 16), (0.0,) * 3, (1.0,) * 3, 0, packings)
        with pytest.raises(InputError, match=r"l\.ppm: claims 20000x10000 pixels; at most 128"):
            prepare(b"P6 20000 10000 255\n", "l.ppm", inputs)
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path / "pipe", "is a pipe"), (tmp_path, "cannot be read: Is a dir")):
        with pytest.raises(InputError, match=what):
            read_file(path)


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
    summary, *causes = captured.err.splitlines()[-3:]
    assert_says(summary, "imagenet-predict: error: ", "2 of 3 images cannot")
    assert_says(causes[0], f"{images[0]}: ", "No such file")
    assert_says(causes[1], f"{images[2]}: ", "is no image")
    if output == "json":
        (document,) = json.loads(captured.out)
        assert document["image"] == str(good)
    else:
        assert captured.out.startswith(str(good))


def test_top_counts_from_one(attempt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        predict.main(["--model", str(attempt), "x.jpg", "--top", "0"])
    assert caught.value.code == 2
    assert_says(capsys.readouterr().err, "--top", "at least 1", "not 0")
