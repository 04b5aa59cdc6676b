"""TensorFlow's strategy of one worker with all its devices."""

from imagenet_operator.manifests.settings import DEFAULTS
from support.job_table import JOBS, members, variables


def test_one_worker_mirrors_alone() -> None:
    (worker,) = members(JOBS["mirrored"])
    container = worker["spec"]["containers"][0]
    assert container["command"] == ["imagenet-train"]
    texts = " ".join(container["args"])
    # Its strategy is the program's default.
    assert "--framework TensorFlow" in texts and "--batch-size 512" in texts
    assert "--gpus 0,1,2,3" in texts and "--kv-store" not in texts
    assert not variables(container).keys() & {"TF_CONFIG", "PORT"}
    assert [port["name"] for port in container["ports"]] == ["metrics"]
    assert container["image"] == DEFAULTS.images["TensorFlow"].gpu
