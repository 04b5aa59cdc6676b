"""docs/from-the-tutorials.md claims only what the programs, the resource and MXNet show."""

import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import mxnet
import pytest
import yaml
from pydantic import BaseModel

from imagenet_spec.resource import ImageNetJob
from imagenet_spec.validate import validate

TEXT = (Path(__file__).parents[2] / "docs" / "from-the-tutorials.md").read_text()
PROGRAMS = ("index", "pack", "seal", "train", "predict", "plot")
# Options of the tutorial's programs that the text speaks of beside their replacement.
THEIRS = {"--list"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def parser(program: str) -> ArgumentParser:
    module = importlib.import_module(f"imagenet_workloads.commands.{program}")
    built = module.build_parser()
    assert isinstance(built, ArgumentParser)
    return built


def options(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))


KNOWN = {program: options(parser(program).format_help()) for program in PROGRAMS}


def rows() -> Iterator[dict[str, str]]:
    """Each row of each table, by the table's headings."""
    for table in re.findall(r"(?:^\|.*\|\n)+", TEXT, re.MULTILINE):
        heading, _, *lines = (
            [cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()
        )
        for cells in lines:
            yield dict(zip((name.strip("| `") for name in heading), cells, strict=True))


def prose() -> str:
    """The text without its blocks and tables."""
    return re.sub(r"^```.*?^```$|^\|.*\|$", "", TEXT, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", blocks("yaml"))
def test_every_manifest_is_valid(document: str) -> None:
    assert validate(yaml.safe_load(document)) == []


def commands() -> list[list[str]]:
    text = "\n".join(blocks("sh")).replace("\\\n", " ").replace("$KEY", "0f" * 16)
    return [shlex.split(line) for line in text.splitlines() if line]


@pytest.mark.parametrize("command", commands(), ids=lambda command: command[0])
def test_every_command_parses(command: list[str]) -> None:
    program, *arguments = command
    parser(program.removeprefix("imagenet-")).parse_args(arguments)


def test_the_commands_are_those_of_every_program() -> None:
    assert {command[0] for command in commands()} == {f"imagenet-{name}" for name in PROGRAMS}


def test_every_option_that_replaces_one_exists() -> None:
    found = 0
    for row in rows():
        found += len(options(row.get("imagenet-train", "")))
        assert options(row.get("imagenet-train", "")) <= KNOWN["train"], row
        for program, option in re.findall(
            r"`imagenet-(\w+) (--[\w-]+)", row.get("The programs", "")
        ):
            found += 1
            assert option in KNOWN[program], row
    assert found > 40


def test_every_option_in_the_text_exists_or_is_the_tutorial_s() -> None:
    assert options(prose()) <= set().union(*KNOWN.values()) | THEIRS
    for program, option in re.findall(r"`imagenet-(\w+) … (--[\w-]+)", prose()):
        assert option in KNOWN[program]


def field(model: Any, path: list[str]) -> None:
    """Follows a path of camelCase names through the models; raises LookupError at a wrong one."""
    while path:
        candidates = [model, *get_args(model)]
        models = [one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel)]
        if not models:
            return  # A template: whatever Kubernetes has.
        fields = {found.alias or name: found for name, found in models[0].model_fields.items()}
        if path[0] not in fields:
            raise LookupError(f"{models[0].__name__} has no {path[0]}")
        model, path = fields[path[0]].annotation, path[1:]


def test_every_field_exists() -> None:
    paths = set(re.findall(r"\bspec\.[A-Za-z.]*[A-Za-z]", TEXT))
    assert len(paths) > 30
    for path in paths:
        field(ImageNetJob, path.split("."))
    with pytest.raises(LookupError, match="has no worker"):
        field(ImageNetJob, ["spec", "training", "worker"])


def test_the_manifest_says_what_the_tutorial_s_commands_say() -> None:
    job = ImageNetJob.model_validate(yaml.safe_load(blocks("yaml")[0]))
    (launch,) = (block for block in blocks("bash") if "launch.py" in block)
    words = shlex.split(launch.replace("\\\n", " "))
    assert words[words.index("-n") + 1] == str(job.spec.training.workers.replicas)
    gpus = words[words.index("--gpus") + 1].split(",")
    assert len(gpus) == job.spec.training.workers.gpus
    given = words[words.index("--batch-size") + 1]
    assert given == str(job.spec.training.batch_size) == "8192"
    assert words[words.index("--num-layers") + 1] == str(job.spec.training.model.num_layers)
    # What the tutorial's option means instead, and what the text says of it.
    workers = job.spec.training.workers.replicas
    figures = set(re.findall(r"[\d,]*\d", TEXT))
    assert {f"{8192 * workers:,}", str(8192 // len(gpus))} <= figures


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Classes of 4, 5 and 6 images, as the tutorial's loops expect them."""
    for name, count in (("n4", 4), ("n5", 5), ("n6", 6)):
        (tmp_path / "full" / name).mkdir(parents=True)
        for number in range(count):
            (tmp_path / "full" / name / f"{name}_{number}.JPEG").write_bytes(b"")
    return tmp_path


def run_loop(folder: Path, word: str, replace: tuple[str, str]) -> None:
    (script,) = (block for block in blocks("bash") if word in block)
    script = "ROOT=full\n" + script.replace(*replace)
    subprocess.run(["bash", "-euc", script], cwd=folder, check=True, capture_output=True)


def test_the_tutorial_s_loop_removes_a_class_of_exactly_the_threshold(tree: Path) -> None:
    run_loop(tree, "_filtered", ("500", "5"))
    assert {path.name for path in (tree / "full").iterdir()} == {"n6"}
    assert {path.name for path in (tree / "full_filtered").iterdir()} == {"n4", "n5"}


def test_the_tutorial_s_draw_of_validation_images_moves_more_each_time(tree: Path) -> None:
    for moved in (2, 4):
        run_loop(tree, "shuf", ("-n 50", "-n 2"))
        assert len(list((tree / "full_val" / "n5").iterdir())) == moved


@pytest.fixture(scope="module")
def im2rec() -> ModuleType:
    path = Path(mxnet.__file__).parent / "tools" / "im2rec.py"
    specification = importlib.util.spec_from_file_location("im2rec", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_im2rec_refuses_the_tutorial_s_options(
    im2rec: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--list", "True", "--chunks", "8", "--recursive", "True", "meta/name", "full"]
    monkeypatch.setattr(sys, "argv", ["im2rec.py", *arguments])
    with pytest.raises(SystemExit):
        im2rec.parse_args()
    assert "unrecognized arguments: meta/name full" in capsys.readouterr().err


def test_im2rec_shifts_the_labels_of_a_list_that_lacks_a_class(
    im2rec: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def labels() -> dict[str, int]:
        found = im2rec.list_image(str(tree / "full"), True, [".jpeg"])
        return {Path(name).parent.name: label for _, name, label in found}

    assert labels() == {"n4": 0, "n5": 1, "n6": 2}
    for image in (tree / "full" / "n5").iterdir():
        image.unlink()
    assert labels() == {"n4": 0, "n6": 1}


def test_mxnet_s_launcher_calls_what_python_no_longer_has() -> None:
    tracker = Path(mxnet.__file__).parents[1] / "dmlc_tracker" / "tracker.py"
    assert "thread.isAlive()" in tracker.read_text()
    assert not hasattr(threading.Thread, "isAlive")
