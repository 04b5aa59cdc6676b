"""Words for classes, from every file that has them, in the dataset and in its records."""

from pathlib import Path

import pytest

from imagenet_workloads.commands import index
from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare.classes import read_words
from support import development_kit
from support.pictures import collection, write_folder
from support.preparation import examples, prepare, refused, run_index
from support.sentences import assert_says

CLASSES = ("n01", "n02", "n03")
WORDS = {"n01": "tench, Tinca tinca", "n02": "goldfish"}
JSON = '{"0": ["n01", "tench"], "1": ["n02", "gold_fish"]}'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("LOC_synset_mapping.txt", "n01 tench, Tinca tinca\nn02 goldfish\nn77 cat\n", WORDS),
        ("words.txt", "n02\tgoldfish\nn01\ttench, Tinca tinca\n", WORDS),
        ("imagenet_class_index.json", JSON, {"n01": "tench", "n02": "gold fish"}),
        ("mapping.json", '{"n01": "tench, Tinca tinca", "n02": "goldfish"}', WORDS),
        ("meta.mat", None, WORDS),
    ],
)
def test_reads_every_file_that_has_words(
    name: str, content: str | None, expected: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is None:
        path.write_bytes(development_kit.meta({1: "n01", 2: "n02"}, WORDS))
    else:
        path.write_text(content)
    found = read_words(path, CLASSES)
    assert found == expected
    assert list(found) == sorted(found)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "{", "x.json: is not valid JSON"),
        ("x.json", '{"n01": 3}', "the entry 'n01' must be words, or a class and its words; write"),
        ("x.txt", "n01 " + "x" * 1001, "the words of n01 are longer than 1000 characters"),
        ("x.txt", "n01 a\x01b", "hold control characters"),
        ("x.mat", "n01 tench", "is not the meta.mat of ILSVRC2012"),
    ],
)
def test_says_what_is_wrong_with_a_file(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_words(tmp_path / name, CLASSES)
    with pytest.raises(InputError, match="no: cannot be read"):
        read_words(tmp_path / "no", CLASSES)


def test_words_are_in_the_dataset_and_in_every_example(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "source", collection({"n01": 2, "n02": 2, "n03": 2}))
    (tmp_path / "words.txt").write_text("n01\ttench, Tinca tinca\nn02\tgoldfish\n")
    options = ("--shards", "1", "--format", "TFRecord")
    words = ("--class-words", str(tmp_path / "words.txt"))
    dataset = prepare(source, tmp_path / "data", *options, *words)
    assert read_dataset(dataset).class_words == WORDS
    found = {
        features["image/class/synset"][0]: features["image/class/text"][0]
        for _, features in examples(dataset)
    }
    assert found == {b"n01": b"tench, Tinca tinca", b"n02": b"goldfish", b"n03": b"n03"}


def test_without_words_nothing_changes(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "source", collection({"n01": 2, "n02": 2}))
    options = ("--shards", "1", "--format", "TFRecord")
    dataset = prepare(source, tmp_path / "data", *options)
    assert "classWords" not in (dataset / "dataset.json").read_text()
    assert "classWords" not in (dataset / "plan" / "plan.json").read_text()
    texts = {features["image/class/text"][0] for _, features in examples(dataset)}
    assert texts == {b"n01", b"n02"}
    (tmp_path / "words.txt").write_text("n01 tench\n")
    words = ("--class-words", str(tmp_path / "words.txt"))
    assert run_index(source, tmp_path / "data", *options, *words)["key"] != dataset.name


def test_words_of_single_classes_count_more_than_the_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = write_folder(tmp_path / "source", collection({"n01": 2, "n02": 2, "n03": 2}))
    (tmp_path / "words.txt").write_text("n01 tench\nn02 goldfish\n")
    options = ("--shards", "1", "--class-words", str(tmp_path / "words.txt"))
    given = ("--class-word", "n02=gold = fish, $carp", "--class-word", "n03=shark")
    sealed = read_dataset(prepare(source, tmp_path / "data", *options, *given))
    assert sealed.class_words == {"n01": "tench", "n02": "gold = fish, $carp", "n03": "shark"}
    message = refused(
        capfd, "--source", source, "--data", tmp_path / "data", "--class-word", "N01=x"
    )
    assert_says(message, "--class-word (classWords): ", "'N01' is no class", "such as n01")
    with pytest.raises(SystemExit):
        index.main(["--source", str(source), "--data", "d", "--class-word", "n01"])


def test_words_for_none_of_the_classes_are_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = write_folder(tmp_path / "source", collection({"n01": 2, "n02": 2}))
    (tmp_path / "words.txt").write_text("n77 cat\n")
    message = refused(
        capfd, "--source", source, "--data", tmp_path / "data", "--shards", "1",
        "--class-words", tmp_path / "words.txt",
    )  # fmt: skip
    assert_says(message, "words.txt: ", "no words for n01", "any other class", "write lines of")
