"""Every argument list that the operator builds is one that the workloads' own parsers take."""

import argparse
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings

from imagenet_operator.manifests.arguments import of_worker
from imagenet_spec.frameworks import DEFAULT_FRAMEWORK, FRAMEWORKS
from imagenet_spec.load import load
from imagenet_spec.program.kinds import StepDecay
from imagenet_spec.program.option import Option
from imagenet_spec.program.presets import PRESETS
from imagenet_spec.program.programs import PROGRAMS
from imagenet_spec.program.train import TRAIN
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.augmentation import Augmentation
from imagenet_spec.resource.base import Model
from imagenet_spec.resource.compatibility import COMBINATIONS
from imagenet_spec.resource.extra_arguments import OPERATOR_OPTIONS
from imagenet_spec.resource.job import ImageNetJobSpec
from imagenet_spec.resource.networks import Network
from imagenet_spec.resource.sources import SOURCES
from imagenet_spec.resource.strategies.parameter_server import ParameterServer
from imagenet_spec.resource.strategies.single import Single
from imagenet_spec.resource.training import Optimizer
from imagenet_spec.validate import parse as parse_job
from imagenet_workloads.commands import train
from support.argument_lists import (
    GOOD,
    OWN_PROGRAMS,
    Manifest,
    is_ours,
    lines,
    parse,
    parser_of,
    pods,
)
from support.job_table import JOBS
from support.random_jobs import jobs


@pytest.fixture
def accept(monkeypatch: pytest.MonkeyPatch) -> Callable[[Manifest], None]:
    """Return a check that a program takes a container's arguments, alone and together."""
    train = import_module("imagenet_workloads.commands.train")
    index = import_module("imagenet_workloads.commands.index")
    monkeypatch.setattr(index, "run_program", lambda *_: 0)
    beyond_the_parser = {"imagenet-train": train.parse, "imagenet-index": index.main}

    def check(container: Manifest) -> None:
        for script, arguments in lines(container):
            parse((script, arguments))
            if script in beyond_the_parser:
                beyond_the_parser[script](arguments)

    return check


@pytest.mark.parametrize("name", JOBS)
def test_the_programs_take_what_the_tables_jobs_give(
    name: str, accept: Callable[[Manifest], None]
) -> None:
    for spec in pods(JOBS[name]):
        accept(spec["containers"][0])


@pytest.mark.parametrize("file", GOOD, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_the_programs_take_what_published_manifests_give(
    file: Path, accept: Callable[[Manifest], None]
) -> None:
    for document in load(file):
        named = {**document, "metadata": {**document["metadata"], "name": "published"}}
        containers = [spec["containers"][0] for spec in pods(parse_job(named))]
        ours = [container for container in containers if is_ours(container)]
        assert ours == containers or file.stem in OWN_PROGRAMS
        for container in ours:
            accept(container)


@given(job=jobs())
@settings(max_examples=30)
def test_the_parsers_take_what_any_job_gives(job: ImageNetJob) -> None:
    seen = set()
    for spec in pods(job):
        container = spec["containers"][0]
        key = (container["command"][0], *container["args"])
        if key not in seen:
            seen.add(key)
            for line in lines(container):
                parse(line)


def worker_options(job: ImageNetJob) -> argparse.Namespace:
    return parse(lines(pods(job)[-1]["containers"][0])[-1])


def test_each_field_arrives_at_its_option() -> None:
    job = JOBS["all of training"]
    options, training = worker_options(job), job.spec.training
    assert options.network == training.model.network
    assert options.image_shape == training.model.image_shape
    assert options.batch_size * training.workers.replicas == training.batch_size
    assert options.num_epochs == training.epochs
    assert options.data_nthreads == training.data_threads
    assert options.optimizer == training.optimizer.name
    assert options.lr == training.optimizer.learning_rate
    assert options.mom == training.optimizer.momentum
    assert options.wd == training.optimizer.weight_decay
    assert options.lr_factor == training.optimizer.learning_rate_factor
    assert options.lr_step_epochs is None
    assert options.warmup_epochs == training.optimizer.warmup_epochs
    assert options.warmup_strategy == training.optimizer.warmup_strategy
    assert options.lr_scaling == training.optimizer.learning_rate_scaling == "sqrt"
    assert options.lr_scaling_base == training.optimizer.learning_rate_scaling_base == 1024
    assert options.checkpoint_every_epochs == training.checkpoint.every_epochs
    assert options.checkpoint_every_seconds == training.checkpoint.every_seconds
    assert options.checkpoint_keep == training.checkpoint.keep
    assert options.kv_store == "dist_device_sync"
    assert options.disp_batches == 50 and options.benchmark is True
    assert worker_options(JOBS["gpus"]).gpus == tuple(range(8))


@pytest.mark.parametrize(
    "name", ["defaults", "all of training", "crops at random", "a recipe of today"]
)
def test_augmentation_arrives(name: str) -> None:
    options = worker_options(JOBS[name])
    for field, value in JOBS[name].spec.training.augmentation.model_dump().items():
        assert getattr(options, field) == value, field


@pytest.mark.parametrize("preset", sorted(PRESETS))
@given(job=jobs())
@settings(max_examples=30)
def test_a_preset_changes_no_field(preset: str, job: ImageNetJob) -> None:
    """At the program's own default, too, which a preset would replace."""
    fields = job.spec.training
    model = Network.model_validate({"network": "resnet", "numLayers": 50})
    optimizer = Optimizer(learning_rate=0.1, step_epochs=(30, 60))
    update = {"model": model, "optimizer": optimizer, "epochs": 80}
    changed = fields.model_copy(update={**update, "extra_args": ("--preset", preset)})
    texts = of_worker(
        job.model_copy(update={"spec": job.spec.model_copy(update={"training": changed})}), {}
    )
    options = train.parse(texts)
    assert (options.optimizer.lr, options.optimizer.num_epochs) == (0.1, 80)
    assert options.optimizer.lr_step_epochs == StepDecay((30, 60))
    assert options.optimizer.batch_size * fields.workers.replicas == fields.batch_size
    assert (options.model.num_layers, options.model.image_shape) == (50, (3, 224, 224))


def test_a_recipe_arrives() -> None:
    options = worker_options(JOBS["a recipe of today"])
    assert (options.optimizer, options.lr_schedule, options.lr_power) == ("lamb", "polynomial", 1)
    assert (options.label_smoothing, options.ema_decay) == (0.1, 0.9999)


def test_a_precision_is_told_and_absent_is_the_default_of_both_sides() -> None:
    assert worker_options(JOBS["single of pytorch in bfloat16"]).dtype == "bfloat16"
    assert worker_options(JOBS["single of pytorch"]).dtype == "float32"


def test_sizes_of_images_arrive() -> None:
    options, training = (
        worker_options(JOBS["sizes of images"]),
        JOBS["sizes of images"].spec.training,
    )
    sizes = training.model.image_sizes or ()
    assert options.image_sizes == tuple((one.epoch, one.size) for one in sizes) != ()
    assert options.validation_size == training.model.validation_size == 256


def test_every_option_of_a_worker_is_one_that_extra_arguments_may_not_repeat() -> None:
    for name, job in JOBS.items():
        _, arguments = lines(pods(job)[-1]["containers"][0])[-1]
        built = arguments[: len(arguments) - len(job.spec.training.extra_args)]
        given = {text.partition("=")[0] for text in built if text.startswith("--")}
        # extraArgs may have it where the field is absent.
        assert given - {"--dtype"} <= OPERATOR_OPTIONS.keys(), name


@pytest.mark.parametrize(
    "item",
    [item for program in (TRAIN, *PROGRAMS) for item in program.options if item.field],
    ids=lambda item: item.name,
)
def test_the_field_of_an_option_is_one_of_the_resource(item: Option) -> None:
    kinds = SOURCES if "*" in item.field else ("",)
    assert any(is_field(item.field.replace("*", kind)) for kind in kinds)


def is_field(path: str) -> bool:
    """Return whether the resource has a field, by its path below `spec`."""
    model: Any = ImageNetJobSpec
    for name in re.sub("([A-Z])", r"_\1", path).lower().split("."):
        if name not in getattr(model, "model_fields", {}):
            return False
        model = hinted(model, name)
    return True


def hinted(model: Any, name: str) -> Any:
    """Return the model of a field, which may be optional; None if it has another type."""
    hint = get_type_hints(model)[name]
    options = [one for one in (hint, *get_args(hint)) if isinstance(one, type)]
    return next((one for one in options if issubclass(one, Model)), None)


def test_every_augmentation_has_its_option() -> None:
    fields = {
        f"spec.training.augmentation.{item.alias}" for item in Augmentation.model_fields.values()
    }
    assert fields <= set(OPERATOR_OPTIONS.values())


@pytest.mark.parametrize("strategy", [ParameterServer, Single])
def test_every_kvstore_is_known_to_the_program(strategy: type[ParameterServer | Single]) -> None:
    stores = strategy.model_fields["kv_store"].annotation.__args__  # type: ignore[union-attr]
    assert set(stores) <= choices("kv_store")


def choices(option: str) -> set[str]:
    """Return the values that an option of `imagenet-train` has."""
    actions = parser_of("imagenet-train")._actions
    (action,) = (action for action in actions if action.dest == option)
    return set(action.choices or ())


NAMED = ("irrored", "horovod", "pytorch", "distributed")
"""Parts of the names of jobs whose strategy is the value of an option."""


@pytest.mark.parametrize("name", [name for name in JOBS if any(part in name for part in NAMED)])
def test_the_program_is_told_framework_and_strategy(name: str) -> None:
    job = JOBS[name]
    options, training = worker_options(job), job.spec.training
    assert options.framework == training.framework
    snake = re.sub("([A-Z])", lambda match: f"_{match[1].lower()}", training.strategy.kind)
    told = options.kv_store if training.framework == "MXNet" else options.distribution_strategy
    assert told == snake


def test_the_frameworks_and_their_strategies_are_the_same_on_both_sides() -> None:
    assert choices("framework") == set(FRAMEWORKS)
    others = {row.strategy for row in COMBINATIONS if row.framework != DEFAULT_FRAMEWORK}
    snake = {re.sub("([A-Z])", lambda match: f"_{match[1].lower()}", kind) for kind in others}
    assert choices("distribution_strategy") == snake


@pytest.mark.parametrize(
    "name",
    [name for name in JOBS if name.startswith("horovod")]
    + [f"distributed data parallel with {what}" for what in ("gpus", "processes")],
)
def test_the_slots_of_all_workers_share_the_batch(name: str) -> None:
    job = JOBS[name]
    container = pods(job)[-1]["containers"][0]
    slots = parse(lines(container)[0]).slots
    processes = job.spec.training.workers.replicas * slots
    assert worker_options(job).batch_size * processes == job.spec.training.batch_size
