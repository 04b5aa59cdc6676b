"""Which environment of this machine a pod's program is taken from."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments
from imagenet_operator.manifests import preview
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.frameworks.descriptor import LocalEnvironment
from imagenet_spec.resource import ImageNetJob
from support.job_table import JOBS, manifest, read
from support.pod_subset import REPOSITORY

HOROVOD = FRAMEWORKS["MXNet"].local_environment("horovod")
TENSORFLOW = FRAMEWORKS["TensorFlow"].environment
TRAINS_IN: list[tuple[str, LocalEnvironment | None]] = [
    ("defaults", None),
    ("single", None),
    ("horovod", HOROVOD),
    ("horovod of tensorflow", TENSORFLOW),
    ("mirrored", TENSORFLOW),
    ("multi-worker mirrored", TENSORFLOW),
]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Return the folder of an environment with one program, and one beside it with two."""
    for name, programs in {"env": ["prepare", "train"], "env-tensorflow": ["train"]}.items():
        (tmp_path / name / "bin").mkdir(parents=True)
        for program in programs:
            (tmp_path / name / "bin" / program).touch(0o755)
    return tmp_path / "env"


def programs(prefix: Path, training: LocalEnvironment | None) -> environments.Programs:
    own = environments.programs(training, {"PATH": str(prefix / "bin")}, prefix)
    # Without the programs of the environment that these tests run in.
    return replace(own, own=own.own[1:])


@pytest.mark.parametrize(("name", "environment"), TRAINS_IN)
def test_a_job_trains_in_the_environment_of_its_framework(
    name: str, environment: LocalEnvironment | None
) -> None:
    assert environments.of_job(JOBS[name]) == environment


def test_members_run_in_the_environment_beside_and_preparation_in_imagenetctls_own(
    prefix: Path,
) -> None:
    found = programs(prefix, TENSORFLOW)
    assert found.find("prepare", trains=False) == prefix / "bin" / "prepare"
    assert found.find("train", trains=False) == prefix / "bin" / "train"
    beside = prefix.with_name("env-tensorflow")
    assert found.find("train", trains=True) == beside / "bin" / "train"


def test_an_environment_of_another_python_is_found_beside_one_with_a_version_in_its_name(
    prefix: Path,
) -> None:
    versioned = prefix.rename(prefix.with_name("env-3.13"))
    beside = prefix.with_name("env-tensorflow") / "bin" / "train"
    assert programs(versioned, TENSORFLOW).find("train", trains=True) == beside
    # One that was made for this version goes first.
    own = prefix.with_name("env-3.13-tensorflow") / "bin" / "train"
    own.parent.mkdir(parents=True)
    own.touch(0o755)
    assert programs(versioned, TENSORFLOW).find("train", trains=True) == own


def test_without_an_environment_of_its_own_members_run_in_imagenetctls(prefix: Path) -> None:
    assert programs(prefix, None).find("train", trains=True) == prefix / "bin" / "train"


def test_an_environment_that_is_missing_is_named_with_what_to_type(prefix: Path) -> None:
    with pytest.raises(LocalError) as caught:
        programs(prefix, HOROVOD).find("train", trains=True)
    assert f"{prefix}-horovod/bin/train" in str(caught.value)
    assert str(caught.value).endswith("make install-horovod")


def own_job(command: str) -> ImageNetJob:
    template = {"spec": {"containers": [{"name": "main", "command": [command, "x"]}]}}
    workers = {"replicas": 2, "template": template}
    training = {"image": "mine:1", "strategy": {"horovod": {}}, "workers": workers}
    return read(manifest(training=training))


def test_a_users_own_command_comes_from_the_path(prefix: Path) -> None:
    command = environments.command_of(own_job("train"))
    found = replace(programs(prefix, TENSORFLOW), command=command)

    assert found.find("train", trains=True) == prefix / "bin" / "train"
    beside = prefix.with_name("env-tensorflow")
    assert found.find("train", trains=False) == prefix / "bin" / "train"
    (beside / "bin" / "rendezvous").touch(0o755)
    assert found.find("rendezvous", trains=True) == beside / "bin" / "rendezvous"


def test_imagenetctls_own_folder_is_not_a_part_of_the_path(prefix: Path, tmp_path: Path) -> None:
    found = environments.programs(None, {"PATH": str(tmp_path)}, prefix, "python")
    assert found.find("python", trains=False).name == "python"
    with pytest.raises(LocalError):
        found.find("python", trains=True)


def test_a_users_own_command_that_is_missing_is_named(prefix: Path) -> None:
    found = replace(programs(prefix, TENSORFLOW), command="Rscript")
    with pytest.raises(LocalError) as caught:
        found.find("Rscript", trains=True)
    assert str(caught.value).startswith("spec.training.workers.template: the command 'Rscript' ")
    assert "PATH" in str(caught.value)


@pytest.mark.parametrize("command", ["imagenet-slots", "imagenet-train"])
def test_a_program_of_this_project_comes_from_the_jobs_environment(command: str) -> None:
    assert environments.command_of(own_job(command)) is None


@pytest.mark.parametrize("environment", [HOROVOD, TENSORFLOW])
def test_what_to_type_is_there_to_be_typed(environment: LocalEnvironment) -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    assert f"\n{environment.target}:" in makefile


@pytest.mark.parametrize("name", ["defaults", "horovod"])
def test_members_are_told_from_the_pods_of_preparation(name: str) -> None:
    built = preview.everything(JOBS[name])
    templates = [item["spec"]["template"] for item in built if item["kind"] == "Job"]
    members = [item for item in built if item["kind"] == "Pod"]
    assert templates and not any(map(environments.is_member, templates))
    assert members and all(map(environments.is_member, members))


def test_programs_are_found_in_order(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "program").touch(0o755)
    (first / "data").touch(0o644)
    (second / "data").touch(0o755)

    assert environments.find_program("program", [first, second]) == first / "program"
    assert environments.find_program("data", [first, second]) == second / "data"
    assert environments.find_program("absent", [first, second]) is None
    assert environments.find_program("/bin/sh", [first]) == Path("/bin/sh")


def test_programs_beside_this_python_come_first() -> None:
    folders = environments.program_folders({"PATH": "/usr/bin::/bin"})

    assert folders == (Path(sys.executable).parent, Path("/usr/bin"), Path("/bin"))
    assert Path("/bin") in environments.program_folders({}), "where the shell would look"
