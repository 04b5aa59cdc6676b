"""What `validate` says: the sentence a person reads, and that it always says something."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_spec.load import load
from imagenet_spec.resource.sources import SOURCES
from imagenet_spec.validate import validate
from support.corpus import cases
from support.good_manifest import GOOD, TRAINING, changed
from support.sentences import assert_says

Facts = tuple[str, ...]

WORKER_FIELDS = "replicas, minReplicas, elastic, gpus, template, cache"
# A field that is set → where the problem is below it, and the facts of its sentence.
PROBLEMS: list[tuple[str, object, str, Facts]] = [
    (f"{TRAINING}.batchSize", 5, "", ("5 is not divisible", "2 devices", "write 4 or 6")),
    (f"{TRAINING}.batchSize", 1, "", ("1 is not divisible", "2 devices", "write 2")),
    (f"{TRAINING}.batchSize", "128", "", ("an integer", 'not "128"', "128 without quotes")),
    (f"{TRAINING}.batchSize", "many", "", ("an integer", 'not "many"', "write", "at least 1")),
    (f"{TRAINING}.batchSize", 0, "", ("at least 1", "not 0")),
    (f"{TRAINING}.batch_size", 128, "", ("unknown field", "write batchSize")),
    (f"{TRAINING}.epoch", 3, "", ("unknown field", "did you mean epochs?")),
    (f"{TRAINING}.learningRate", 0.1, "", ("unknown", f"{TRAINING}.optimizer.learningRate")),
    (f"{TRAINING}.workers.zebra", 1, "", ("unknown field", WORKER_FIELDS)),
    ("metadata.anotations", {}, "", ("unknown field", "did you mean annotations?")),
    (
        f"{TRAINING}.strategy",
        {"parameterServer": {"kvStore": "device"}},
        ".parameterServer.kvStore",
        (
            '"device" is not possible',
            "device belongs to spec.training.strategy.single",
            "one of dist_sync, dist_device_sync, dist_async",
        ),
    ),
    ("spec.dataset.source", {}, "", ("no kind", f"one of {', '.join(SOURCES)}")),
    ("spec.dataset.volume.size", "10 GB", "", ('"10 GB" is malformed', "above zero", "200Gi")),
    (
        f"{TRAINING}.extraArgs",
        ["--lr=1"],
        "",
        ("--lr is set by the operator", f"write {TRAINING}.optimizer.learningRate"),
    ),
    (f"{TRAINING}.extraArgs", "--lr=1", "", ("a list", 'not "--lr=1"', "write [--lr=1]")),
    (f"{TRAINING}.extraArgs", ["--disp-batches", 20], "[1]", ("text", "not 20", '"20" in quotes')),
    (
        "spec.runPolicy.suspend",
        "True",
        "",
        ("true or false", 'not "True"', "true without quotes"),
    ),
    (
        "spec.runPolicy.schedulingPolicy",
        {"gang": "timeout"},
        ".gang",
        ('"timeout" is not possible', "did you mean Timeout?"),
    ),
    (
        f"{TRAINING}.framework",
        "Tensorflow",
        "",
        ('"Tensorflow" is not possible', "did you mean TensorFlow?"),
    ),
    (f"{TRAINING}.model", {}, ".network", ("is required", "imagenetctl networks")),
    (
        f"{TRAINING}.model",
        {"network": "resnet", "numLayers": 51},
        ".numLayers",
        ("51 is not a depth of resnet", "one of 18, 34, 50, 101, 152"),
    ),
    (
        f"{TRAINING}.model",
        {"network": "resnet", "imageShape": [3, 28, 28]},
        ".numLayers",
        ("is required", "small images", "6n+2", "20, 56 or 110"),
    ),
    (f"{TRAINING}.model.numLayers", 5, "", ("lenet", "one depth", "remove it")),
    (f"{TRAINING}.model.imageShape", [28, 28], "", ("at least 3 items", "not 2")),
    (
        f"{TRAINING}.augmentation",
        {"randomResizedCrop": True, "maxRandomArea": 0.5},
        ".minRandomArea",
        ("1 is above maxRandomArea, 0.5", "write 0.5 or less"),
    ),
    (
        f"{TRAINING}.augmentation",
        {"randomResizedCrop": True, "minRandomAspectRatio": 0.75},
        ".maxRandomAspectRatio",
        ("0 is below minRandomAspectRatio, 0.75", "write 0.75 or more"),
    ),
    (
        f"{TRAINING}.augmentation",
        {"randomResizedCrop": True, "maxRandomAspectRatio": 1.33},
        ".maxRandomAspectRatio",
        (
            "1.33 without minRandomAspectRatio",
            "from 1 - 1.33",
            "not above 0",
            "write minRandomAspectRatio: 0.75",
            "below 1",
        ),
    ),
    (
        "spec.dataset",
        {
            "source": {"synthetic": {"imagesPerClass": 50}},
            "preprocessing": {"minImagesPerClass": 0},
            "volume": {"size": "10Gi"},
        },
        ".source.synthetic.imagesPerClass",
        (
            "50 images leave none to train",
            "validation.split takes 50",
            "write 51 or more",
            "lower validation.split.imagesPerClass",
        ),
    ),
    (
        "spec.dataset",
        {
            "source": {"synthetic": {"classes": 7, "imagesPerClass": 51}},
            "preprocessing": {"minImagesPerClass": 0},
            "volume": {"size": "10Gi"},
        },
        ".preprocessing.shards",
        ("8 shards", "more than", "7 training images", "write 7 or fewer", "more images"),
    ),
    (f"{TRAINING}.image", "x" * 2000, "", ("at most 1024 characters", "not 2000")),
    ("metadata.name", "a" * 41, "", ("41 characters", "names of its pods", "at most 40")),
    ("kind", "imagenetjob", "", ("'imagenetjob'", "write ImageNetJob")),
    (
        f"{TRAINING}.workers.template",
        {"spec": {"restartPolicy": "Always"}},
        ".spec.restartPolicy",
        ("cannot be overridden", "restarts whole attempts", "remove it", "write Never"),
    ),
]


def assert_problems(document: dict[str, Any], expected: dict[str, Facts]) -> None:
    """Assert that these fields are the only ones with problems, and the facts of each."""
    found = [str(problem).partition(": ") for problem in validate(document)]
    assert sorted(path for path, _, _ in found) == sorted(expected)
    for path, _, message in found:
        assert_says(message, *expected[path])


@pytest.mark.parametrize(("path", "value", "below", "facts"), PROBLEMS)
def test_a_problem_is_one_sentence_with_its_remedy(
    path: str, value: object, below: str, facts: Facts
) -> None:
    assert_problems(changed(path, value), {f"{path}{below}": facts})


def test_a_name_with_line_breaks_stays_one_line() -> None:
    document = changed(f"{TRAINING}.workers.a\nb\t", 1)
    assert_problems(document, {rf"{TRAINING}.workers.a\nb\t": ("unknown field", WORKER_FIELDS)})


def of_tensorflow(strategy: object, **training: object) -> dict[str, Any]:
    """Return a manifest for TensorFlow, with further fields of the training."""
    document = changed(f"{TRAINING}.framework", "TensorFlow")
    document["spec"]["dataset"]["preprocessing"] = {"format": "TFRecord"}
    document["spec"]["training"] |= {"strategy": strategy, **training}
    return document


def of_horovod(fields: object, **training: object) -> dict[str, Any]:
    """Return a manifest for MXNet with Horovod, with further fields of the training."""
    strategy = {"horovod": fields}
    return changed(TRAINING, {**GOOD["spec"]["training"], "strategy": strategy, **training})


def of_pytorch(strategy: object, **training: object) -> dict[str, Any]:
    """Return a manifest for PyTorch, with further fields of the training."""
    fields = {"framework": "PyTorch", "strategy": strategy, **training}
    return changed(TRAINING, GOOD["spec"]["training"] | fields)


EVERYWHERE = "lenet, mlp, alexnet, resnet, vgg, inception-v3, densenet, squeezenet, mobilenet"
CONFLICTS: list[tuple[dict[str, Any], dict[str, Facts]]] = [
    (
        changed(f"{TRAINING}.framework", "TensorFlow"),
        {
            f"{TRAINING}.strategy": (
                "TensorFlow has no strategy parameterServer",
                "one of horovod, mirrored, multiWorkerMirrored",
                "or framework: MXNet",
                "preprocessing.format: RecordIO",
            ),
            "spec.dataset.preprocessing.format": (
                "TensorFlow does not read RecordIO",
                "write TFRecord",
            ),
        },
    ),
    (
        changed(f"{TRAINING}.strategy", {"multiWorkerMirrored": {}}),
        {
            f"{TRAINING}.strategy": (
                "MXNet has no strategy multiWorkerMirrored",
                "one of parameterServer, single, horovod",
                "or framework: TensorFlow",
                "preprocessing.format: TFRecord",
            )
        },
    ),
    (
        of_tensorflow({"mirrored": {}}),
        {
            f"{TRAINING}.workers": (
                "must have 1 replica",
                "strategy mirrored",
                "not 2",
                "replicas: 1",
                "or strategy: {multiWorkerMirrored: {}}",
            )
        },
    ),
    (
        of_tensorflow({"horovod": {}}, model={"network": "mobilenet-v2"}),
        {
            f"{TRAINING}.model.network": (
                "TensorFlow has no mobilenet-v2",
                f"one of {EVERYWHERE}, or",
                "framework: MXNet or PyTorch",
            )
        },
    ),
    (
        of_tensorflow({"horovod": {}}, optimizer={"name": "lbsgd"}),
        {
            f"{TRAINING}.optimizer.name": (
                "TensorFlow has no lbsgd",
                "such as sgd",
                "or framework: MXNet",
            )
        },
    ),
    (
        of_tensorflow({"horovod": {}}, augmentation={"maxRandomS": 1, "maxRandomH": 5}),
        {
            f"{TRAINING}.augmentation": (
                "TensorFlow has no maxRandomH",
                "no maxRandomS",
                "remove it",
                "or write framework: MXNet",
            )
        },
    ),
    (
        changed(f"{TRAINING}.augmentation", {"maxRandomL": 9, "brightness": 0.4, "pcaNoise": 0}),
        {
            f"{TRAINING}.augmentation": (
                "MXNet has no maxRandomL",
                "no brightness",
                "1 channel",
                "remove it",
                "or write model.imageShape: [3, 28, 28]",
            )
        },
    ),
    (
        of_pytorch({"single": {}}, workers={"gpus": 4}),
        {
            f"{TRAINING}.workers.gpus": (
                "1 or less with single",
                "not 4",
                "one device",
                "write gpus: 1",
                "or strategy: {distributedDataParallel: {}}",
            )
        },
    ),
    (
        changed(f"{TRAINING}.precision", "float16"),
        {
            f"{TRAINING}.precision": (
                "MXNet",
                "float16 on GPUs only",
                "write float32",
                "or workers.gpus",
            )
        },
    ),
    (
        of_horovod({"slotsPerWorker": 3}),
        {f"{TRAINING}.batchSize": ("128 is not divisible", "6 devices", "write 126 or 132")},
    ),
    (
        of_horovod({"slotsPerWorker": 3}, workers={"gpus": 8}),
        {
            f"{TRAINING}.strategy.horovod.slotsPerWorker": (
                "8 GPUs are not divisible",
                "3 slots",
                "one of 1, 2, 4, 8",
            )
        },
    ),
    (
        changed(
            f"{TRAINING}.workers.template",
            {"spec": {"containers": [{"name": "main", "command": ["bash"]}]}},
        ),
        {
            f"{TRAINING}.workers.template.spec.containers[0].command": (
                "cannot be overridden",
                "its own program",
                "extraArgs",
                "remove it",
                "or write its image as spec.training.image",
            )
        },
    ),
]


@pytest.mark.parametrize(
    ("document", "expected"), CONFLICTS, ids=[next(iter(row[1])) for row in CONFLICTS]
)
def test_what_does_not_go_together_is_said_with_what_would(
    document: dict[str, Any], expected: dict[str, Facts]
) -> None:
    assert_problems(document, expected)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("resnet50", "did you mean resnet?"),
        ("vgg16", "did you mean vgg?"),
        ("Inception", "did you mean inception-v3?"),
        ("mobilenetv2", "did you mean mobilenet-v2?"),
        ("transformer", "write one of lenet, mlp, alexnet"),
    ],
)
def test_an_unknown_network_gets_the_nearest_name(name: str, hint: str) -> None:
    (problem,) = validate(changed(f"{TRAINING}.model.network", name))
    assert str(problem.hint).startswith(hint)


@pytest.mark.parametrize("name", ["epochz", "epoch", "Epochs"])
def test_a_required_field_that_is_misspelt_is_one_problem(name: str) -> None:
    document = changed(f"{TRAINING}.{name}", 3)
    del document["spec"]["training"]["epochs"]
    (problem,) = validate(document)
    assert problem.path == f"{TRAINING}.{name}"
    assert_says(str(problem.hint), "epochs")
    document["spec"]["training"]["nothingAlike"] = document["spec"]["training"].pop(name)
    paths = sorted(problem.path for problem in validate(document))
    assert paths == [f"{TRAINING}.epochs", f"{TRAINING}.nothingAlike"]


def test_each_of_several_problems_is_a_sentence() -> None:
    assert_problems(
        changed(f"{TRAINING}.strategy", {"parameterServer": {}, "single": {}}),
        {
            f"{TRAINING}.workers": (
                "must have 1 replica",
                "strategy single",
                "not 2",
                "replicas: 1",
                "or strategy: {parameterServer: {}}",
            ),
            f"{TRAINING}.strategy": (
                "parameterServer and single",
                "together",
                "keep one of parameterServer, single",
            ),
        },
    )


def test_every_problem_of_the_corpus_comes_with_a_remedy_or_a_bound() -> None:
    """A sentence that names a bound needs no remedy."""
    for case in cases("bad"):
        if not case.paths("document"):
            problems = [found for document in load(case.path) for found in validate(document)]
            mute = {str(p) for p in problems if not p.hint and not p.message.startswith("must")}
            assert not mute


def test_a_name_is_as_long_as_its_characters() -> None:
    problems = validate(changed("metadata.name", "ä" * 22))
    assert [problem.path for problem in problems] == ["metadata.name"]


@pytest.mark.parametrize("status", ["x", {"conditions": 5}, None])
def test_a_status_of_another_shape_is_no_error_of_validate(status: Any) -> None:
    document = changed("metadata.name", "digits")
    validate(document, {**document, "status": status})
