"""What the images install: all that the distributions ask for, at written versions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.chart import REPOSITORY
from support.codecs import hide_libturbojpeg

IMAGES = REPOSITORY / "images"
DOCKERFILES = {path.parent.name: path.read_text() for path in IMAGES.glob("*/Dockerfile")}
# Which of the distributions an image installs, and with what; and where its versions stand.
CONTENTS = {
    "operator": (("operator",), ("operator",)),
    "workloads-mxnet": (("workloads", "mxnet"), ("workloads", "horovod")),
    "workloads-mxnet-cu112": (
        ("workloads", "mxnet-cu112"),
        ("workloads", "workloads-cu112"),
    ),
    "workloads-tensorflow": (
        ("workloads", "tensorflow"),
        ("workloads", "tensorflow", "horovod"),
    ),
    "workloads-tensorflow-gpu": (
        ("workloads", "tensorflow-gpu"),
        ("workloads", "tensorflow", "horovod"),
    ),
}


def required(distribution: str, *extras: str) -> set[str]:
    """Return the names of what a distribution asks for, as the image's build prints them."""
    project = REPOSITORY / distribution / "pyproject.toml"
    command = [sys.executable, str(IMAGES / "requirements.py"), str(project), *extras]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {_name(line) for line in printed.splitlines()}


def pinned(*files: str) -> set[str]:
    """Return the names of what constraints files pin."""
    texts = [(REPOSITORY / "constraints" / f"{file}.txt").read_text() for file in files]
    return {_name(line) for text in texts for line in text.splitlines() if "==" in line}


def _name(requirement: str) -> str:
    return re.split(r"[<>=!~\[; ]", requirement)[0].lower().replace("_", "-")


def test_every_image_is_known_here() -> None:
    assert set(DOCKERFILES) == set(CONTENTS)


@pytest.mark.parametrize("image", CONTENTS)
def test_everything_that_is_installed_is_pinned(image: str) -> None:
    installed, files = CONTENTS[image]
    assert required(*installed) <= pinned(*files)


@pytest.mark.parametrize("image", CONTENTS)
def test_an_image_installs_what_it_should(image: str) -> None:
    (_, *extras), files = CONTENTS[image]
    text = " ".join(DOCKERFILES[image].replace("\\\n", " ").split())
    arguments = " ".join(["/source/pyproject.toml", *extras, "> /source/requirements.txt"])
    assert f"python /source/requirements.py {arguments}" in text
    for file in files:
        assert f"--constraint /source/{file}.txt" in text


def test_the_tools_that_build_the_wheels_are_pinned() -> None:
    assert {"hatchling"} <= pinned("build")


@pytest.mark.parametrize(
    "image", [name for name, (_, files) in CONTENTS.items() if "horovod" in files]
)
def test_horovod_is_built_apart_so_that_no_compiler_stays(image: str) -> None:
    stages = re.split(r"^FROM ", DOCKERFILES[image], flags=re.MULTILINE)
    (builder,) = (stage for stage in stages if "/horovod/build_horovod.py " in stage)
    assert builder.startswith("environment AS horovod\n")
    assert "g++" in builder
    assert stages[-1].startswith("environment\n")
    assert "g++" not in stages[-1]
    assert "COPY --from=horovod /wheels /source/horovod\n" in stages[-1]
    assert "/source/horovod/*.whl" in stages[-1]


@pytest.mark.parametrize(
    "image", [name for name, (_, files) in CONTENTS.items() if "horovod" in files]
)
def test_what_this_machine_has_kept_of_horovod_decides_no_other_layer(image: str) -> None:
    """The frameworks are installed before; a folder without wheels is in every clone."""
    text = DOCKERFILES[image]
    assert text.count("images/kept") == 2
    copy = "COPY images/build_horovod.py images/horovod-idle-cycle.patch images/kept /horovod/\n"
    before, copied, after = text.partition(copy)
    assert copied
    assert "--requirement /source/requirements.txt" in before
    assert "--into /wheels --cache /horovod\n" in after
    assert (IMAGES / "kept/.gitignore").read_text().splitlines()[1:] == ["*", "!.gitignore"]


@pytest.mark.parametrize("image", CONTENTS)
def test_an_image_runs_as_a_number_that_is_not_root(image: str) -> None:
    (user,) = re.findall(r"^USER (.+)$", DOCKERFILES[image], re.MULTILINE)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


@pytest.mark.parametrize("image", CONTENTS)
def test_what_an_image_copies_is_there_and_sent_to_the_engine(image: str) -> None:
    sent = {line[1:] for line in _ignore() if line.startswith("!")}
    text = DOCKERFILES[image].replace("\\\n", " ")
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        *sources, _ = line.split()
        for source in sources:
            assert (REPOSITORY / source).exists(), source
            assert source.partition("/")[0] in sent, source


def _ignore() -> list[str]:
    return (REPOSITORY / ".dockerignore").read_text().splitlines()


CODEC_IMAGES = [name for name, text in DOCKERFILES.items() if "libturbojpeg0" in text]


@pytest.mark.libturbojpeg
@pytest.mark.parametrize("image", CODEC_IMAGES)
def test_the_build_of_an_image_loads_the_planes_codec(image: str, tmp_path: Path) -> None:
    (code,) = re.findall(r'/opt/imagenet/bin/python -c "(.*prepare.*)"', DOCKERFILES[image])
    name, value = hide_libturbojpeg(tmp_path / "libraries")
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, check=False).returncode == 0
    without = subprocess.run(command, env={name: value}, capture_output=True, check=False)
    assert without.returncode == 1
    assert b"install the package libturbojpeg0" in without.stderr


def test_every_image_of_the_workloads_has_the_library_of_the_planes_codec() -> None:
    assert set(CODEC_IMAGES) == set(CONTENTS) - {"operator"}
