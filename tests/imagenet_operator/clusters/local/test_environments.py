"""Which environment of this machine a pod's program is taken from."""

from pathlib import Path

import pytest

from imagenet_operator.api.frameworks import FRAMEWORKS, LocalEnvironment
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments
from imagenet_operator.manifests import preview
from support.job_table import JOBS
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
    return environments.Programs(own.own[1:], own.training, own.prefix)


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


def test_without_an_environment_of_its_own_members_run_in_imagenetctls(prefix: Path) -> None:
    assert programs(prefix, None).find("train", trains=True) == prefix / "bin" / "train"


def test_an_environment_that_is_missing_is_named_with_what_to_type(prefix: Path) -> None:
    with pytest.raises(LocalError) as caught:
        programs(prefix, HOROVOD).find("train", trains=True)
    assert str(caught.value) == (
        "Horovod with MXNet needs another environment, and there is no "
        f"{prefix}-horovod/bin/train; in a checkout of this project type: make install-horovod"
    )


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
