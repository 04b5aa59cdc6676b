"""What parameter servers do with the commands of a worker that means harm, over real ps-lite."""

import sys
from pathlib import Path

import pytest

from support.processes import wait_until
from support.training_cluster import TrainingCluster

HOSTILE = """
import os, pathlib, pickle, time
import mxnet as mx

class Payload:
    def __reduce__(self):
        return os.system, ("touch {marker}",)

store = mx.kv.create("{kv_store}")
store._send_command_to_servers(0, pickle.dumps(Payload(), 0).decode())
store._send_command_to_servers(77, "unknown")
print("sent", flush=True)
while not pathlib.Path("{leave}").exists():
    time.sleep(0.01)
"""
REFUSED = "imagenet_peer_requests_refused_total"


def refused(page: str) -> float:
    (line,) = (line for line in page.splitlines() if line.startswith(f"{REFUSED}{{"))
    return float(line.rpartition(" ")[2])


@pytest.mark.parametrize(
    ("kv_store", "reason"),
    [
        ("dist_sync", "workers of dist_sync send no optimizer"),
        ("dist_async", "it needs 'posix.system'"),
    ],
)
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, kv_store: str, reason: str) -> None:
    marker, leave = tmp_path / "it-ran", tmp_path / "leave"
    worker = HOSTILE.format(marker=marker, kv_store=kv_store, leave=leave)
    with TrainingCluster(
        tmp_path / "members",
        kv_store,
        [],
        workers=1,
        own_program=[sys.executable, "-c", worker],
        environment={"IMAGENET_WORKER_PROGRAM": "imagenet-train"},
    ) as cluster:
        wait_until(lambda: "sent" in cluster.output("worker-0"), "the server has answered")
        assert refused(cluster.metrics("server")) == 1
        leave.touch()
        assert set(cluster.wait().values()) == {0}, cluster.output("server")
    assert not marker.exists()
    assert f"refused command 0 of a worker: {reason}" in cluster.output("server")


# The weight is 1, the gradient 2, the rate 0.25 and then half of it.
GLUON = """
import mxnet as mx
import numpy as np

network = mx.gluon.nn.Dense(1, in_units=1, use_bias=False)
network.initialize(mx.init.One())
falling = mx.lr_scheduler.FactorScheduler(np.int64(1), 0.5, base_lr=0.25)
settings = {{"learning_rate": 0.25, "lr_scheduler": falling}}
trainer = mx.gluon.Trainer(
    network.collect_params(), "sgd", settings, kvstore="{kv_store}", update_on_kvstore=True
)
for step in range(2):
    with mx.autograd.record():
        loss = network(mx.nd.ones((1, 1))) * 2
    loss.backward()
    trainer.step(1)
mx.nd.waitall()
print("weight:", network.weight.data().asnumpy().tolist())
"""


@pytest.mark.parametrize("kv_store", ["dist_sync", "dist_async"])
def test_gluon_s_trainer_updates_the_weights_on_the_servers(tmp_path: Path, kv_store: str) -> None:
    program = [sys.executable, "-c", GLUON.format(kv_store=kv_store)]
    with TrainingCluster(tmp_path, kv_store, [], workers=1, own_program=program) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("server")
        assert cluster.output("worker-0") == "weight: [[0.25]]\n"
        assert "refused command" not in cluster.output("server")


# Two bits tell of each number whether it exceeds the threshold. The rest is added to the next one.
COMPRESSING = """
import mxnet as mx
import numpy as np

store = mx.kv.create("dist_sync")
store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
store.init(0, mx.nd.zeros((100, 40)))
store._barrier()
pulled = mx.nd.zeros((100, 40))
for gradient in (0.75, 0.125, 0.125):
    store.push(0, mx.nd.ones((100, 40)) * gradient)
    store.pull(0, out=pulled)
    print("sums:", np.unique(pulled.asnumpy()).tolist(), flush=True)
store._barrier()
"""


def test_a_server_that_refuses_all_of_python_s_commands_obeys_ps_lite_s(tmp_path: Path) -> None:
    """The setting of the compression is a command too, which C++ obeys."""
    with TrainingCluster(
        tmp_path,
        "dist_sync",
        [],
        own_program=[sys.executable, "-c", COMPRESSING],
        environment={"IMAGENET_WORKER_PROGRAM": "imagenet-train"},
    ) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("server")
        for worker in ("worker-0", "worker-1"):
            # Of two workers. The third gradient makes the rests as large as the threshold.
            assert cluster.output(worker).splitlines() == [
                "sums: [1.0]",
                "sums: [0.0]",
                "sums: [1.0]",
            ]
        assert "refused command" not in cluster.output("server")
