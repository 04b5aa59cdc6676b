"""Whether this machine can run what a job needs, before anything starts."""

from pathlib import Path

import pytest

from imagenet_operator.clusters.interface import LocalError, Unsupported
from imagenet_operator.clusters.local import environments, preflight
from imagenet_operator.clusters.local.machine import Volumes
from imagenet_operator.clusters.local.preflight import Needs
from imagenet_operator.manifests.settings import DEFAULTS
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.elastic_workers import worker_counts
from support import job_table
from support.sentences import says

PREPARATION = {"imagenet-index", "imagenet-pack", "imagenet-seal"}
RUNNABLE = [name for name, job in job_table.JOBS.items() if job.spec.training.image is None]


def training_programs(job: ImageNetJob) -> set[str]:
    strategy, workers = job.spec.training.strategy, job.spec.training.workers
    if strategy.kind == "horovod":
        return {"imagenet-rendezvous", "imagenet-slots"}
    parallel = strategy.distributed_data_parallel
    has_slots = parallel is not None and parallel.processes(workers.gpus) > 1
    return {"imagenet-slots" if has_slots else "imagenet-train"}


@pytest.mark.parametrize("name", RUNNABLE)
def test_every_pod_that_the_builders_make_can_run_here(name: str) -> None:
    job = job_table.JOBS[name]
    dataset = job.spec.dataset
    # A sealed dataset that is resized is prepared too.
    preparation = set() if dataset.is_sealed else PREPARATION
    if dataset.verify == "Checksums":
        preparation = preparation | {"imagenet-seal"}
    if dataset.source.fields.is_fetched:
        preparation = preparation | {"imagenet-fetch"}
    if dataset.publish is not None or job.spec.training.upload is not None:
        preparation = preparation | {"imagenet-publish"}

    wanted = preflight.needs(job, DEFAULTS)

    assert wanted.programs == {
        *((name, True) for name in training_programs(job)),
        *((name, False) for name in preparation),
    }
    assert wanted.ports <= {9090, 9091, 9092}
    # An attempt with elastic workers starts with the largest number that divides.
    workers = worker_counts(job.spec.training)[-1]
    assert wanted.gpus == workers * job.spec.training.workers.gpus


@pytest.mark.parametrize(
    ("precision", "gpus", "cpuinfo", "is_warned"),
    [
        ("bfloat16", 0, "flags\t\t: fpu avx2 avx512f\n", True),
        ("bfloat16", 0, "flags\t\t: fpu avx512_bf16\n", False),
        ("bfloat16", 0, "", False),
        ("bfloat16", 1, "flags\t\t: fpu avx2\n", False),
        (None, 0, "flags\t\t: fpu avx2\n", False),
    ],
)
def test_bfloat16_needs_a_processor_that_has_it(
    precision: str | None, gpus: int, cpuinfo: str, is_warned: bool
) -> None:
    training = {"framework": "PyTorch", "precision": precision, "workers": {"gpus": gpus}}
    job = ImageNetJob.model_validate(job_table.manifest(training=training))
    said = preflight.slow_precision(job, cpuinfo)
    assert (said is not None) is is_warned
    assert said is None or said.startswith("spec.training.precision: this processor has no")


def test_an_image_of_ones_own_cannot() -> None:
    with pytest.raises(Unsupported, match=r"worker-0: .*the image 'registry\.example/"):
        preflight.needs(job_table.JOBS["own image"], DEFAULTS)


def test_a_command_of_ones_own_can_whatever_its_image_is() -> None:
    template = {"spec": {"containers": [{"name": "main", "command": ["train.R", "--epochs=1"]}]}}
    training = {"image": "mine:1", "workers": {"replicas": 2, "template": template}}
    job = job_table.read(job_table.manifest(training=training))

    wanted = preflight.needs(job, DEFAULTS)

    # The scheduler and the servers stay those of the operator.
    assert {name for name, trains in wanted.programs if trains} == {"train.R", "imagenet-train"}


def test_a_sidecar_of_ones_own_command_cannot() -> None:
    containers = [{"name": "main", "command": ["train.R"]}, {"name": "logger", "image": "x"}]
    workers = {"replicas": 2, "template": {"spec": {"containers": containers}}}
    job = job_table.read(job_table.manifest(training={"image": "mine:1", "workers": workers}))
    with pytest.raises(Unsupported, match=r"cannot have sidecars \(logger\)"):
        preflight.needs(job, DEFAULTS)


def test_a_job_that_somebody_else_manages_is_not_run_here() -> None:
    other = {"managedBy": "kueue.x-k8s.io/multikueue"}
    job = job_table.read(job_table.manifest(run_policy=other))
    with pytest.raises(LocalError, match=r"^spec\.runPolicy\.managedBy: kueue.*; remove the field"):
        preflight.needs(job, DEFAULTS)


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("defaults", {"raw"}),
        ("synthetic", set()),
        ("prepared", {"shared"}),
        ("prepared with its own output", {"shared", "results"}),
        ("output on the dataset's claim", {"raw", "shared"}),
    ],
)
def test_claims_that_the_job_does_not_make_must_be_there(name: str, claims: set[str]) -> None:
    assert preflight.needs(job_table.JOBS[name], DEFAULTS).claims == claims


def check(tmp_path: Path, *, capacity: int = 0, **changes: object) -> None:
    needs = {
        "programs": (),
        "mounted": (),
        "claims": (),
        "secrets": (),
        "gpus": 0,
        "ports": (),
        **changes,
    }
    programs = environments.programs(None, {"PATH": "/bin"})
    preflight.check(Needs(**needs), capacity, Volumes(tmp_path, {}), programs)  # type: ignore[arg-type]


def test_a_machine_that_has_everything_passes(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()

    check(tmp_path, capacity=2, programs=[("sh", False)], claims=["raw"], gpus=2)


@pytest.mark.parametrize(
    ("lacking", "facts"),
    [
        ({"programs": [("imagenet-none", True)]}, ["'imagenet-none' is neither"]),
        ({"gpus": 3}, ["3 GPUs at a time", "this machine has 2"]),
        ({"claims": ["raw"]}, ["claim 'raw' has no folder"]),
        ({"secrets": ["login"]}, ["Secret 'login' has no folder", "--secret login=FOLDER"]),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, lacking: dict[str, object], facts: list[str]
) -> None:
    with pytest.raises(LocalError, match=says(*facts)):
        check(tmp_path, capacity=2, **lacking)


def test_a_folder_is_named_for_a_claim_that_somebody_mounts(tmp_path: Path) -> None:
    found = Volumes(tmp_path, {"raw": tmp_path, "model": tmp_path})

    preflight.check_mapped(frozenset({"raw", "model", "digits-dataset"}), frozenset(), found)
    with pytest.raises(
        LocalError, match=r"--volume model=…: nothing mounts a claim 'model'; write"
    ):
        preflight.check_mapped(frozenset({"raw", "digits-dataset"}), frozenset(), found)


@pytest.mark.parametrize(
    ("mounted", "instead"),
    [(frozenset(), "leave it out"), (frozenset({"key"}), "write one of key")],
)
def test_a_folder_is_named_for_a_secret_that_a_pod_mounts(
    tmp_path: Path, mounted: frozenset[str], instead: str
) -> None:
    found = Volumes(tmp_path, {}, {"login": tmp_path})

    preflight.check_mapped(frozenset(), frozenset({"login"}), found)
    with pytest.raises(LocalError, match=f"nothing mounts a Secret 'login'; {instead}"):
        preflight.check_mapped(frozenset(), mounted, found)
