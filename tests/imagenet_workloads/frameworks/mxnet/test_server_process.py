"""Schedulers and servers without most of `import mxnet`, with MXNet's own worker as the judge."""

import inspect
import os
import pickle
import pickletools
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import mxnet as mx
import numpy as np
import pytest

from imagenet_spec.program.kinds import PolynomialDecay, StepDecay
from imagenet_workloads.frameworks.mxnet.optimizers import ByUpdate
from imagenet_workloads.frameworks.mxnet.server_process import (
    ADMITTED,
    RefusedCommandError,
    decode,
)
from imagenet_workloads.train.schedule import Schedule
from support.loopback import free_port
from support.members import Members
from support.processes import wait_until
from support.training_cluster import TrainingCluster, plain_environment

SERVE = """
import sys
from imagenet_workloads.frameworks.mxnet.server_process import Workers
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


@pytest.mark.costly
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


@pytest.mark.costly
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


@pytest.mark.costly
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


OPTIMIZERS = sorted(
    set(mx.optimizer.Optimizer.opt_registry.values()), key=lambda kind: kind.__name__
)
SCHEDULERS = [
    mx.lr_scheduler.LRScheduler(),
    mx.lr_scheduler.FactorScheduler(step=2),
    mx.lr_scheduler.MultiFactorScheduler(step=[2, 3]),
    mx.lr_scheduler.PolyScheduler(max_update=5),
    mx.lr_scheduler.CosineScheduler(max_update=5),
    ByUpdate(Schedule(0.1, 10, 2, 0.5, decay=StepDecay((1,)))),
    ByUpdate(Schedule(0.1, 10, 2, decay=PolynomialDecay(2.0)), workers=4),
]


def state(optimizer: mx.optimizer.Optimizer) -> dict[str, object]:
    scheduler = optimizer.lr_scheduler
    return {**vars(optimizer), "lr_scheduler": (type(scheduler), vars(scheduler))}


@pytest.mark.parametrize("kind", OPTIMIZERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda made: type(made).__name__)
@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
def test_every_optimizer_of_the_wheel_arrives_as_it_was(
    kind: type, scheduler: Callable[[int], float], protocol: int
) -> None:
    weight = mx.sym.Variable("weight", lr_mult=2.0)
    sent = kind(
        learning_rate=0.1,
        lr_scheduler=scheduler,
        sym=mx.sym.FullyConnected(mx.sym.Variable("data"), weight, num_hidden=2),
        param_idx2name={0: "weight"},
        **({} if kind.__name__ == "GroupAdaGrad" else {"wd": 1e-4}),
    )
    found = decode(pickle.dumps(sent, protocol))
    assert type(found) is kind
    assert state(found) == state(sent)


def test_only_the_classes_of_the_wheel_and_our_scheduler_are_admitted() -> None:
    schedulers = [
        kind
        for kind in vars(mx.lr_scheduler).values()
        if inspect.isclass(kind) and issubclass(kind, mx.lr_scheduler.LRScheduler)
    ]
    ours = [ByUpdate, Schedule, StepDecay, PolynomialDecay]
    known = {(kind.__module__, kind.__qualname__) for kind in (*OPTIMIZERS, *schedulers, *ours)}
    assert known | {("__builtin__", "object")} == ADMITTED


def test_a_worker_of_an_older_image_names_the_module_that_was_moved() -> None:
    schedule = ByUpdate(Schedule(0.1, 10, 2, 0.5, decay=StepDecay((1,))))
    sent = pickle.dumps(mx.optimizer.SGD(lr_scheduler=schedule), 0)
    older = sent.replace(b"imagenet_spec.program.kinds", b"imagenet_workloads.train.options.kinds")
    assert older != sent
    assert state(decode(older)) == state(decode(sent))


@pytest.mark.parametrize(
    "number", [np.float64(0.1), np.float32(0.5), np.float16(2), np.int64(3), np.int32(-3)]
)
@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
def test_numbers_of_numpy_become_numbers(number: np.generic, protocol: int) -> None:
    found = decode(pickle.dumps(mx.optimizer.SGD(learning_rate=number), protocol))
    assert type(found.lr) in (int, float)
    assert found.lr == number


class Runs:
    """A pickle that would write a file."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


def test_a_function_is_named_and_not_called(tmp_path: Path) -> None:
    marker = tmp_path / "it-ran"
    for call in (
        Runs(os.system, f"touch {marker}"),
        Runs(eval, f"open({str(marker)!r}, 'w')"),
        Runs(Path.touch, marker),
        Runs(getattr, mx.optimizer.SGD, "__init__"),
    ):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(RefusedCommandError, match="it needs"):
                decode(pickle.dumps(call, protocol))
        # Also as a part of an optimizer that would be taken.
        optimizer = mx.optimizer.SGD()
        optimizer.lr_mult = {"weight": call}
        with pytest.raises(RefusedCommandError, match="it needs"):
            decode(pickle.dumps(optimizer, 0))
    assert not marker.exists()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "it is no pickle of MXNet's: EOFError"),
        (b"\x00\xff", "it is no pickle of MXNet's: KeyError"),
        # Attributes of an admitted class.
        (b"\x80\x04\x8c\x19mxnet.optimizer.optimizer\x8c\x0cSGD.__init__\x93.", "SGD.__init__"),
        (b"\x80\x04\x8c\x19mxnet.optimizer.optimizer\x8c\x06pickle\x93.", "optimizer.pickle"),
        (b"cmxnet.optimizer\ncreate\n.", "it needs 'mxnet.optimizer.create'"),
        (b"cnumpy\nload\n.", "it needs 'numpy.load'"),
        (pickle.dumps({"lr": 1}), "it is of the type dict, which is no optimizer"),
        (b"cmxnet.optimizer.optimizer\nSGD\n.", "it is of the type type, which is no optimizer"),
        (pickle.dumps(SCHEDULERS[0]), "it is of the type LRScheduler, which is no optimizer"),
        (b"cnumpy\ndtype\n(S'O'\ntR.", "NumPy's type 'O', which is no number"),
        (b"cnumpy.core.multiarray\nscalar\n(I1\nI2\ntR.", "without a type"),
        (
            b"ccopy_reg\n_reconstructor\n(cmxnet.lr_scheduler\nLRScheduler\nc__builtin__\nobject\n"
            b"I1\ntR.",
            "in a way that no optimizer needs",
        ),
        (b"ccopy_reg\n_reconstructor\n(c__builtin__\ndict\nNNtR.", "it needs '__builtin__.dict'"),
        # A tuple of tuples is a text of any length.
        (b"cnumpy\ndtype\n((ttR.", "a type of NumPy's without a name"),
        (b"c_codecs\nencode\n((t(ttR.", "bytes that are no text"),
    ],
)
def test_what_is_no_optimizer_is_refused_with_the_reason(body: bytes, reason: str) -> None:
    with pytest.raises(RefusedCommandError, match=f".*{reason}"):
        decode(body)


def test_a_pickle_that_ends_early_is_refused() -> None:
    whole = pickle.dumps(mx.optimizer.SGD(lr_scheduler=SCHEDULERS[1]), 0)
    ends = [place for _, _, place in pickletools.genops(whole) if place]
    for end in ends:
        with pytest.raises(RefusedCommandError):
            decode(whole[:end])


# A class, a stand-in for a function, and an optimizer, each with a state that sets attributes.
CLASS = b"cmxnet.lr_scheduler\nFactorScheduler\n"
FUNCTION = b"ccopy_reg\n_reconstructor\n"
SLOTS = b"(N(S'__defaults__'\n(I1\nI2\ntS'forged'\nI1\ndtb."


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (CLASS + SLOTS, "sets attributes of a class or a function"),
        (FUNCTION + SLOTS, "sets attributes of a class or a function"),
        (FUNCTION + b"(S'forged'\nI1\ndb.", "sets attributes of a class or a function"),
        (CLASS + b")\x81" + SLOTS, "state that is no dictionary"),
    ],
)
def test_no_pickle_changes_a_class_or_a_function(body: bytes, reason: str) -> None:
    with pytest.raises(RefusedCommandError, match=reason):
        decode(body)
    assert not hasattr(mx.lr_scheduler.FactorScheduler, "forged")
    # The stand-in still works, and takes no default.
    with pytest.raises(RefusedCommandError, match="TypeError"):
        decode(FUNCTION + b"(tR.")


@pytest.mark.parametrize(
    "body",
    [
        # A place in the memo: LONG_BINPUT of 10,000,000.
        b"\x80\x02}r" + (10_000_000).to_bytes(4, "little") + b".",
        # A length: BYTEARRAY8 and BINBYTES8 of 1 GiB.
        b"\x80\x05\x96" + (2**30).to_bytes(8, "little") + b".",
        b"\x80\x04\x8e" + (2**30).to_bytes(8, "little") + b".",
        b"\x80\x04\x95" + (2**30).to_bytes(8, "little") + b"}.",
    ],
    ids=["memo", "bytearray", "bytes", "frame"],
)
def test_a_number_in_a_short_pickle_takes_no_memory(body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RefusedCommandError):
            decode(body)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "body",
    [
        b"\x80\x04X%b\x8c\x01n\x93.",
        b"\x80\x04\x8c\x01mX%b\x93.",
        b"\x80\x02cnumpy\ndtype\nX%b\x85R.",
        # Python's error quotes the line.
        b"g%b\n.",
    ],
    ids=["module", "name", "type", "line"],
)
def test_a_refusal_is_one_short_line(body: bytes) -> None:
    forged = b"SGD\nrefused nothing " * 50_000
    text = len(forged).to_bytes(4, "little") + forged if b"X%b" in body else b"1\r" * 50_000
    with pytest.raises(RefusedCommandError) as caught:
        decode(body.replace(b"%b", text))
    said = str(caught.value)
    assert len(said) < 300 and said.isprintable()
