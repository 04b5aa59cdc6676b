"""Paths that lead nowhere: one clear error of each program, with an exit code that ends retries."""

from argparse import Action, ArgumentParser, ArgumentTypeError, _SubParsersAction
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from imagenet_workloads.commands import (
    dataset,
    door,
    export,
    fetch,
    index,
    ledger,
    pack,
    plot,
    predict,
    publish,
    seal,
    train,
    verify,
)
from support.pictures import collection, write_folder
from support.preparation import WITHOUT_PRIVILEGES, finish, prepare, start

Main = Callable[[Sequence[str]], int]

KEY = ("--key", "abc")
FETCHED = ("--http-archive", "http://localhost/a.tar")
LONG = "x" * 300


def run(main: Main, *arguments: str | Path) -> int:
    return main([str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("main", "arguments", "option"),
    [
        (index.main, ("--source", "", "--data", "d"), "--source"),
        (index.main, ("--source", "s", "--data", ""), "--data"),
        (index.main, ("--source", "s", "--data", "d", "--validation-source", "",
                      "--validation-labels", "l"), "--validation-source"),
        (index.main, ("--source", "s", "--data", "d", "--validation-source", "v",
                      "--validation-labels", ""), "--validation-labels"),
        (pack.main, ("--source", "", "--data", "d", *KEY), "--source"),
        (pack.main, ("--validation-source", "", "--data", "d", *KEY), "--validation-source"),
        (pack.main, ("--data", "", *KEY), "--data"),
        (seal.main, ("--data", "", *KEY), "--data"),
        (predict.main, ("--model", "", "x.jpg"), "--model"),
        (predict.main, ("--model", "m", ""), "IMAGE"),
        (export.main, ("", "--format", "onnx"), "RESULT"),
        (plot.main, ("",), "FOLDER"),
        (train.parse, ("--dataset", ""), "--dataset"),
        (train.parse, ("--output", ""), "--output"),
        (train.parse, ("--init-from", ""), "--init-from"),
        (train.parse, ("--model-prefix", ""), "--model-prefix"),
        (train.parse, ("--data-train", "", "--data-val", "v"), "--data-train"),
        (train.parse, ("--data-train", "t", "--data-val", ""), "--data-val"),
        (fetch.main, ("--cache", "", *FETCHED), "--cache"),
        (door.main, ("--folder", ""), "--folder"),
        (publish.main, ("--dataset", "", "--s3-bucket", "b"), "--dataset"),
        (dataset.main, ("show", ""), "ADDRESS"),
        (dataset.main, ("publish", "", "s3://b/p"), "FOLDER"),
        (dataset.main, ("publish", "f", ""), "ADDRESS"),
        (dataset.main, ("fetch", "s3://b/p", ""), "FOLDER"),
        (ledger.main, ("",), "FOLDER"),
        (ledger.main, ("f", "--dataset", ""), "--dataset"),
        (verify.main, ("",), "RESULT"),
    ],
)  # fmt: skip
def test_an_empty_path_is_a_bad_argument(
    main: Main, arguments: tuple[str, ...], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, check=lambda error: error.code == 2):
        run(main, *arguments)
    assert f"argument {option}" in capsys.readouterr().err.replace("...", "")


PATHS = {"ADDRESS", "FILE", "FOLDER", "IMAGE", "KEY", "NAME", "PATH", "RESULT"}
PROGRAMS = (dataset, door, export, fetch, index, ledger, pack, plot, predict, publish, seal, verify)


def arguments_of(parser: ArgumentParser) -> Iterator[Action]:
    """The arguments of a program and of its commands."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for command in action.choices.values():
                yield from arguments_of(command)
        else:
            yield action


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(action, id=f"{built.prog} {'/'.join(action.option_strings) or action.dest}")
        for built in (module.build_parser() for module in PROGRAMS)
        for action in arguments_of(built)
        if action.metavar in PATHS
    ],
)
def test_no_argument_for_a_path_takes_an_empty_one(action: Action) -> None:
    """The table above calls each program; this finds the argument that it lacks."""
    read = action.type
    assert callable(read), "any text is taken"
    with pytest.raises(ArgumentTypeError):
        read("")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "source", collection({"a": 3, "b": 3}))


@pytest.mark.parametrize("main", [index.main, pack.main, seal.main])
@pytest.mark.parametrize("data", ["file", "file/below", "nothing", "loop", LONG, f"{LONG}/below"])
def test_a_volume_that_is_no_folder_is_told_as_such(
    main: Main, data: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "nothing").symlink_to("gone")
    (tmp_path / "loop").symlink_to("loop")
    sources = () if main is seal.main else ("--source", source)
    key = () if main is index.main else KEY
    assert run(main, *sources, "--data", tmp_path / data, *key) == 3
    message = capsys.readouterr().err.splitlines()[-1]
    assert str(tmp_path / data) in message
    assert "unexpected" not in message
    if data.startswith("file"):
        assert f"{tmp_path}/file is a file" in message


@pytest.mark.parametrize("option", ["--source", "--validation-source", "--validation-labels"])
@pytest.mark.parametrize("path", ["file/below", "loop", LONG, "gone"])
def test_a_source_that_leads_nowhere_is_told_as_such(
    option: str, path: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "labels").write_text("a\n" * 3)
    paths = {
        "--source": source, "--validation-source": source / "a",
        "--validation-labels": tmp_path / "labels", "--data": tmp_path / "data",
        option: tmp_path / path,
    }  # fmt: skip
    assert run(index.main, "--shards", "1", *(str(x) for pair in paths.items() for x in pair)) == 3
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("imagenet-index: error: ")
    assert f"{tmp_path / path}: " in message


@pytest.mark.parametrize("path", ["file/below", "loop", LONG, "gone"])
def test_a_model_that_leads_nowhere_is_told_as_such(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    assert run(predict.main, "--model", tmp_path / path, "x.jpg") == 3
    message = capsys.readouterr().err.splitlines()[-1]
    assert str(tmp_path / path) in message
    assert "unexpected" not in message


def test_a_folder_that_may_not_be_searched_is_named(source: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    source = source.rename(closed / "source")
    dataset = prepare(source, closed / "data", "--shards", "1")
    key = ("--key", dataset.name)
    closed.chmod(0)
    programs: dict[str, tuple[str | Path, ...]] = {
        "index": ("--source", source, "--data", tmp_path / "data"),
        "pack": ("--source", source, "--data", closed / "data", *key),
        "seal": ("--data", closed / "data", *key),
        "predict": ("--model", closed / "model", "x.jpg"),
    }
    try:
        for name, arguments in programs.items():
            code, _, errors = finish(start(name, *arguments, hook=WITHOUT_PRIVILEGES))
            assert code == 3, errors
            last = errors.splitlines()[-1]
            assert "cannot be accessed: Permission denied" in last
            assert f"({closed} belongs to" in last
    finally:
        closed.chmod(0o755)
