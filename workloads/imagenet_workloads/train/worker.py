"""A worker until its training starts: what it checks, reports and loads before it waits for others.

A process whose environment names no job is a worker too, one that is alone. `commands.train` starts
it in the child that `process.pid1` makes; `trainer` goes on.
"""

import gc
from collections.abc import Mapping
from functools import partial

from imagenet_spec.metrics import TimePhase
from imagenet_spec.names import camel_case
from imagenet_spec.program.option import flag
from imagenet_spec.program.train import Options
from imagenet_workloads import rendezvous
from imagenet_workloads.checkpoint import CheckpointStore
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.rendezvous import Rendezvous
from imagenet_workloads.telemetry.gpus import utilization_of
from imagenet_workloads.telemetry.server import Registry, serve
from imagenet_workloads.telemetry.training import TimeAccount, TrainingRecorder, process_age
from imagenet_workloads.train.description import FrameworkDescription
from imagenet_workloads.train.resume import identify
from imagenet_workloads.train.trainer import Worker, train

_OUT_OF_MEMORY = (
    "out of memory",
    "cannot allocate memory",
    "bad_alloc",
    "failed to allocate cpu memory",
    "insufficient memory",
)


def run(options: Options, description: FrameworkDescription, variables: Mapping[str, str]) -> int:
    """Be a worker; return its exit code. WorkloadError: it cannot go on."""
    members = find_rendezvous(options, description, variables)
    environment = Environment.from_mapping(variables)
    termination = Termination(options.cluster.termination_grace)
    termination.listen()
    registry = Registry(environment)
    recorder = TrainingRecorder(registry, TimeAccount(process_age()))
    serve(registry, environment, recorder.readiness)
    if options.cluster.gpus:
        recorder.utilization(utilization_of(options.cluster.gpus, variables))
    identity = identify(options, environment)
    store = CheckpointStore(
        options.output.output, environment.attempt or 0, identity, options.output.checkpoint_keep
    )
    store.refuse_later_attempt()
    store.sweep()
    if not options.data.test_io:
        may_end_before = options.optimizer.early_stopping_metric is not None
        store.require_room(options.optimizer.num_epochs, may_end_before=may_end_before)
    strategy = description.strategy_of(options)
    # The imports take seconds, in which the others come. Garbage collection takes a sixth of an
    # import of PyTorch or TensorFlow. Without looking at its objects later, TensorFlow makes its
    # first step in five sixths of the time.
    gc.disable()
    try:
        # So that its `join` only has to wait.
        description.load(f"strategies.{description.strategies[strategy]}")
        framework = description.load("framework").create(
            options, members, store.attempt_folder, identity
        )
    finally:
        gc.freeze()
        gc.enable()
    recorder.time.enter(TimePhase.JOINING)
    termination.is_hopeless = members.wait(options.cluster.join_timeout)
    recorder.time.enter(TimePhase.STARTING)
    worker = Worker(
        options,
        environment,
        store,
        identity,
        recorder,
        termination,
        framework,
        strategy,
        partial(description.versions, has_gpus=bool(options.cluster.gpus)),
    )
    try:
        return train(worker)
    except Exception as error:
        reason = members.explain(error) or explain_memory(error, options, description)
        if reason is None:
            raise
        raise WorkloadError(reason) from error


def explain_memory(
    error: Exception, options: Options, description: FrameworkDescription
) -> str | None:
    """Say what to change if an error is a lack of memory; None for any other.

    MXNet raises its own error, with its own text or that of CUDA or the C library; TensorFlow
    raises ResourceExhaustedError, and OpenCV an error with the text "Insufficient memory".
    """
    text = str(error).lower()
    is_memory = isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError"
    if not is_memory and not any(words in text for words in _OUT_OF_MEMORY):
        return None
    where = "the GPU" if options.cluster.gpus or "gpu" in text or "cuda" in text else "this machine"
    images = options.optimizer.batch_size
    name, variable = description.has.memory_option, description.has.memory_variable
    further = ""
    if variable is not None:
        further = f"; {variable} in the environment may save some more, but is slower"
    elif name is not None and not getattr(options.model, name):
        switch = f"{flag(name)} 1 (spec.training.{camel_case(name)}: true)"
        further = f"; {switch} may save some more, but is slower"
    return (
        f"{where} has too little memory for {images} images a step of this worker; lower "
        "--batch-size (spec.training.batchSize); --macrobatch-size adds up the smaller steps"
        f"{further}"
    )


def find_rendezvous(
    options: Options, description: FrameworkDescription, variables: Mapping[str, str]
) -> Rendezvous:
    """Find the rendezvous that the strategy of a command line needs."""
    return rendezvous.find(
        description.strategy_option,
        description.strategy_of(options),
        description.rendezvous,
        variables,
    )
