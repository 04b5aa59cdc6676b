"""Schedulers and servers without most of `import mxnet`, with MXNet's own worker as the judge."""

import sys
from pathlib import Path

import pytest

from support.loopback import free_port
from support.members import Members
from support.training_cluster import plain_environment

SERVE = """
import sys
from imagenet_workloads.frameworks.mxnet.server_commands import Workers
from imagenet_workloads.frameworks.mxnet.server_process import load_library, serve
serve(load_library(), Workers(), lambda: None)
print("imports MXNet:", "mxnet" in sys.modules)
"""
# The weight is 1, the gradient 2. A server without an optimizer keeps what is pushed.
WORKER = """
import mxnet as mx
store = mx.kv.create("dist_sync")
store.init("weight", mx.nd.ones(3))
{optimizer}
store.push("weight", mx.nd.full(3, 2))
weight = mx.nd.zeros(3)
store.pull("weight", out=weight)
print("weight:", weight.asnumpy().tolist())
"""
# Nobody but the worker has its class.
OWN_OPTIMIZER = """
@mx.optimizer.register
class Halving(mx.optimizer.SGD):
    pass

store.set_optimizer(Halving(learning_rate=0.25))
"""
OPTIMIZER = "store.set_optimizer(mx.optimizer.SGD(learning_rate=0.25))"


def job() -> dict[str, str]:
    """What a job of one worker and one server has in common."""
    return {
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(free_port()),
        "DMLC_NODE_HOST": "127.0.0.1",
        "DMLC_NUM_WORKER": "1",
        "DMLC_NUM_SERVER": "1",
    }


@pytest.mark.parametrize(
    ("optimizer", "weight", "imports"), [("", 2.0, False), (OPTIMIZER, 0.5, True)]
)
def test_only_a_server_that_gets_an_optimizer_imports_mxnet(
    tmp_path: Path, optimizer: str, weight: float, imports: bool
) -> None:
    common = job()
    programs = {"scheduler": SERVE, "server": SERVE, "worker": WORKER.format(optimizer=optimizer)}
    with Members(tmp_path) as members:
        for role, program in programs.items():
            environment = plain_environment(DMLC_ROLE=role, **common)
            members.launch(role, [sys.executable, "-c", program], environment)
        assert members.wait() == dict.fromkeys(programs, 0), members.output("server")
    assert members.output("worker") == f"weight: {[weight] * 3}\n"
    assert members.output("server") == f"imports MXNet: {imports}\n"
    assert members.output("scheduler") == "imports MXNet: False\n"


def test_a_server_ends_at_an_optimizer_that_it_cannot_load(tmp_path: Path) -> None:
    common, last_words = job(), tmp_path / "last-words"
    programs = {
        "scheduler": SERVE,
        "server": SERVE,
        "worker": WORKER.format(optimizer=OWN_OPTIMIZER),
    }
    with Members(tmp_path) as members:
        for role, program in programs.items():
            log = {"IMAGENET_TERMINATION_LOG": str(last_words)} if role == "server" else {}
            environment = plain_environment(DMLC_ROLE=role, **common, **log)
            members.launch(role, [sys.executable, "-c", program], environment)
        # The others would wait for it for ever, and end with the block.
        assert members.wait("server") == {"server": 1}
    message = last_words.read_text()
    assert "__main__.Halving" in message
    assert "use an optimizer of MXNet's" in message
