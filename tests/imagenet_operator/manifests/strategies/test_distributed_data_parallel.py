"""Workers of PyTorch, which meet at the first process of the first worker."""

import pytest

from imagenet_operator.manifests.settings import DEFAULTS
from imagenet_spec.resource.strategies.distributed_data_parallel import DistributedDataParallel
from support.job_table import JOBS, members, variables

NAME = "distributed data parallel"


def test_each_worker_knows_the_first_one_and_its_rank() -> None:
    workers = members(JOBS[NAME], 2)
    assert [pod["metadata"]["name"] for pod in workers] == [
        "digits-r2-worker-0",
        "digits-r2-worker-1",
    ]
    for index, pod in enumerate(workers):
        container = pod["spec"]["containers"][0]
        found = variables(container)
        assert found["MASTER_ADDR"] == "digits-r2-worker-0.digits-r2"
        assert (found["MASTER_PORT"], found["WORLD_SIZE"]) == ("9092", "2")
        assert (found["RANK"], found["GROUP_RANK"], found["LOCAL_RANK"]) == (
            *(str(index), str(index), "0"),
        )
        assert container["command"] == ["imagenet-train"]
        texts = " ".join(container["args"])
        assert "--framework PyTorch --distribution-strategy distributed_data_parallel" in texts
        assert "--join-timeout 1500" in texts and "--batch-size 256" in texts
        assert {"name": "training", "containerPort": 9092} in container["ports"]
        assert container["image"] == DEFAULTS.images["PyTorch"].cpu


@pytest.mark.parametrize(
    ("what", "processes", "gpus"), [("gpus", 4, ["--gpus", "0"]), ("processes", 2, [])]
)
def test_several_processes_of_a_worker_are_slots(
    what: str, processes: int, gpus: list[str]
) -> None:
    workers = members(JOBS[f"{NAME} with {what}"])
    for index, pod in enumerate(workers):
        container = pod["spec"]["containers"][0]
        found = variables(container)
        assert container["command"] == ["imagenet-slots"]
        assert container["args"][:2] == ["--slots", str(processes)]
        assert found["RANK"] == str(index * processes)
        assert found["WORLD_SIZE"] == str(2 * processes)
        assert found["LOCAL_WORLD_SIZE"] == str(processes)
        assert gpus == ["--gpus", "0"] or "--gpus" not in container["args"]
        assert " ".join(gpus) in " ".join(container["args"])


@pytest.mark.parametrize(
    ("given", "gpus", "processes"), [(None, 0, 1), (None, 8, 8), (3, 0, 3), (8, 8, 8)]
)
def test_a_worker_has_one_process_for_each_gpu(
    given: int | None, gpus: int, processes: int
) -> None:
    strategy = DistributedDataParallel(processes_per_worker=given)
    assert strategy.processes(gpus) == strategy.devices(gpus) == processes
