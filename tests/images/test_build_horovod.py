"""The build of Horovod's wheel, up to the compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import build_horovod
from support.chart import REPOSITORY
from support.sentences import assert_says

PROGRAM = REPOSITORY / "images" / "build_horovod.py"
PARTS = {"horovod": "0.28.1", "mxnet": "1.9.1", "compiler": "c++ 12.2.0"}
WHEEL = "horovod-0.28.1-cp311.whl"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with every framework and tool, and a compiler."""
    monkeypatch.setattr(build_horovod, "_installed", lambda names: {names[0]: "1"})
    monkeypatch.setattr(build_horovod, "_first_line", lambda _: "c++ 12.2.0")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The frameworks that a wheel of PARTS was built for, in place of a compilation."""
    frameworks: list[str] = []

    def build(framework: str, into: Path, cuda: Path | None) -> Path:
        assert cuda is None
        frameworks.append(framework)
        (into / WHEEL).write_text("wheel")
        return into / WHEEL

    monkeypatch.setattr(build_horovod, "ingredients", lambda *_: PARTS)
    monkeypatch.setattr(build_horovod, "find_compiler", lambda _: "c++")
    monkeypatch.setattr(build_horovod, "build", build)
    return frameworks


def run(into: Path, cache: Path) -> dict[str, str]:
    """Return the wheels, by name, that the program leaves in a folder."""
    assert build_horovod.main(["mxnet", "--into", str(into), "--cache", str(cache)]) == 0
    return {wheel.name: wheel.read_text() for wheel in into.iterdir()}


def write_programs(folder: Path, *names: str) -> None:
    """Make programs that do nothing."""
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def test_only_the_framework_that_is_asked_for_is_built() -> None:
    assert build_horovod.settings("mxnet") == {
        "HOROVOD_WITH_MXNET": "1",
        "HOROVOD_WITHOUT_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_PYTORCH": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITHOUT_MPI": "1",
    }
    assert build_horovod.settings("tensorflow").keys() >= {
        "HOROVOD_WITH_TENSORFLOW",
        "HOROVOD_WITHOUT_MXNET",
    }


@pytest.mark.parametrize(
    ("framework", "newest", "beside"),
    [("mxnet", "86", "mxnet"), ("tensorflow", "90", "tensorflow;$ORIGIN/../../tensorflow/python")],
)
def test_with_a_toolkit_it_reduces_over_nccl(framework: str, newest: str, beside: str) -> None:
    cuda = Path("/cuda")
    plain, made = build_horovod.settings(framework), build_horovod.settings(framework, cuda)
    capabilities = made.pop("HOROVOD_BUILD_CUDA_CC_LIST")
    assert capabilities.rpartition(",")[2] == newest
    assert made == plain | {
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_NCCL_LINK": "SHARED",
        "HOROVOD_WITHOUT_NVTX": "1",
    }
    assert build_horovod.environment(framework, {}, cuda)["HOROVOD_CUDA_HOME"] == "/cuda"
    assert "HOROVOD_CUDA_HOME" not in build_horovod.environment(framework, {})
    text = build_horovod.toolchain(framework, cuda).replace("\\$", "$")
    assert f'set(CMAKE_INSTALL_RPATH "$ORIGIN/../../{beside};' in text
    assert "set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)\n" in text
    assert "CUDA" not in build_horovod.toolchain(framework, None)


@pytest.mark.parametrize("variables", [{}, {"MAKEFLAGS": ""}, {"MAKEFLAGS": "w"}])
def test_a_build_takes_the_cores_that_it_has(variables: dict[str, str]) -> None:
    """Also from a recipe of make, which sets flags."""
    cores = len(os.sched_getaffinity(0))
    assert build_horovod.environment("mxnet", variables)["MAKEFLAGS"] == f"-j{cores}"


def test_a_build_finds_the_environments_own_cmake_first() -> None:
    made = build_horovod.environment("tensorflow", {"PATH": "/usr/bin", "CXX": "clang++"})
    assert made["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"
    assert made["CXX"] == "clang++"
    assert made["HOROVOD_WITH_TENSORFLOW"] == "1"


def test_a_kept_wheel_is_of_the_same_ingredients() -> None:
    assert build_horovod.key(PARTS) == build_horovod.key(dict(reversed(PARTS.items())))
    for name in PARTS:
        assert build_horovod.key(PARTS | {name: "other"}) != build_horovod.key(PARTS)


@pytest.mark.usefixtures("installed")
def test_what_variables_tell_the_build_is_an_ingredient() -> None:
    """A wheel that adds up over NCCL is not taken for one over Gloo."""
    plain = build_horovod.ingredients("mxnet", "c++", {})
    told = {"HOROVOD_GPU_OPERATIONS": "NCCL", "CXXFLAGS": "-g", "CMAKE_BUILD_TYPE": "Debug"}
    for name, value in told.items():
        assert build_horovod.ingredients("mxnet", "c++", {name: value}) == plain | {name: value}
    others = {"PATH": "/usr/bin", "HOME": "/root", "MAKEFLAGS": "w", "MY_CFLAGS": "-g"}
    # What the build sets itself counts as it sets it.
    others |= {"HOROVOD_WITH_MXNET": "0"}
    assert build_horovod.ingredients("mxnet", "c++", others) == plain


@pytest.mark.usefixtures("installed")
def test_the_toolkit_is_an_ingredient_but_not_its_place(tmp_path: Path) -> None:
    found = []
    for place, build in (("here", "11.8"), ("there", "11.8"), ("newer", "12.4")):
        nvcc = tmp_path / place / "bin/nvcc"
        nvcc.parent.mkdir(parents=True)
        nvcc.write_text(f"#!/bin/sh\necho 'nvcc: a compiler'\necho 'Build cuda_{build}'\n")
        nvcc.chmod(0o755)
        found.append(build_horovod.ingredients("mxnet", "c++", {}, tmp_path / place))
    here, there, newer = found
    assert here == there
    assert here["nvcc"] == "Build cuda_11.8"
    assert newer == here | {"nvcc": "Build cuda_12.4"}
    assert here != build_horovod.ingredients("mxnet", "c++", {})


@pytest.mark.usefixtures("installed")
def test_without_a_compiler_in_the_toolkit_it_says_what_makes_one(tmp_path: Path) -> None:
    with pytest.raises(build_horovod.BuildError, match=r"bin/nvcc is missing; images/cuda_toolkit"):
        build_horovod.ingredients("mxnet", "c++", {}, tmp_path)


@pytest.mark.usefixtures("installed")
def test_another_patch_makes_another_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = build_horovod.key(build_horovod.ingredients("mxnet", "c++", {}))
    monkeypatch.setattr(build_horovod, "PATCH", tmp_path / "another.patch")
    build_horovod.PATCH.write_text("--- a/setup.py\n")
    assert build_horovod.key(build_horovod.ingredients("mxnet", "c++", {})) != ours


def test_a_compiler_is_found(tmp_path: Path) -> None:
    write_programs(tmp_path, "c++", "clang++", "make", "patch")
    assert build_horovod.find_compiler({"PATH": str(tmp_path)}) == "c++"
    named = {"PATH": str(tmp_path), "CXX": "clang++"}
    assert build_horovod.find_compiler(named) == "clang++"


@pytest.mark.parametrize("missing", ["c++", "make", "patch"])
def test_without_one_it_says_what_to_install(tmp_path: Path, missing: str) -> None:
    write_programs(tmp_path, *{"c++", "make", "patch"} - {missing})
    message = rf"no {re.escape(missing)} on the PATH.*apt-get install g\+\+ make patch"
    with pytest.raises(build_horovod.BuildError, match=message):
        build_horovod.find_compiler({"PATH": str(tmp_path)})


def test_without_framework_or_tools_it_says_what_to_install(tmp_path: Path) -> None:
    """An environment that has nothing; the machine's c++ is not asked before that is known."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    write_programs(bare / "bin", "c++", "make", "patch")
    ended = subprocess.run(
        [str(bare / "bin/python"), str(PROGRAM), "mxnet", "--into", str(tmp_path / "wheels")],
        env={"PATH": str(bare / "bin"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert_says(ended.stderr, f"{bare} has no mxnet or mxnet-cu112", "install it from PyPI")


def test_a_wheel_that_make_has_put_beside_the_program_is_taken(
    tmp_path: Path, built: list[str]
) -> None:
    """As in the build of an image, where one folder has both."""
    home = tmp_path / "home"
    kept = home / ".cache/imagenetjob/horovod" / build_horovod.key(PARTS)
    kept.mkdir(parents=True)
    (kept / WHEEL).write_text("kept")
    checkout = tmp_path / "checkout"
    for name in ("images/operator/Dockerfile", "operator/pyproject.toml"):
        (checkout / name).parent.mkdir(parents=True)
        (checkout / name).touch()
    command = ["make", "--file", str(REPOSITORY / "Makefile"), "image-operator", "DOCKER=true"]
    variables = {"PATH": os.environ["PATH"], "HOME": str(home)}
    subprocess.run(command, cwd=checkout, env=variables, check=True, capture_output=True)
    assert run(tmp_path / "into", checkout / "images/kept") == {WHEEL: "kept"}
    assert built == []


def test_a_kept_wheel_is_not_built_again(tmp_path: Path, built: list[str]) -> None:
    for into in ("first", "second"):
        assert run(tmp_path / into, tmp_path / "cache") == {WHEEL: "wheel"}
    assert built == ["mxnet"]


def test_a_wheel_of_another_time_does_not_stay_beside_it(tmp_path: Path, built: list[str]) -> None:
    """As pip is asked to install all that the folder has."""
    kept, into = tmp_path / "cache" / build_horovod.key(PARTS), tmp_path / "wheels"
    for folder, name in ((kept, WHEEL), (into, "horovod-0.27.0-cp310.whl")):
        folder.mkdir(parents=True)
        (folder / name).write_text(name)
    assert run(into, tmp_path / "cache") == {WHEEL: WHEEL}
    assert built == []


def test_a_cache_that_cannot_be_written_decides_nothing(tmp_path: Path, built: list[str]) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert run(tmp_path / "wheels", tmp_path / "cache") == {WHEEL: "wheel"}
    assert built == ["mxnet"]
