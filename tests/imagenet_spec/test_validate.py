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

SENTENCES = [
    (
        f"{TRAINING}.batchSize",
        5,
        "spec.training.batchSize: 5 is not divisible by 2 devices; write 4 or 6",
    ),
    (
        f"{TRAINING}.batchSize",
        1,
        "spec.training.batchSize: 1 is not divisible by 2 devices; write 2",
    ),
    (
        f"{TRAINING}.batchSize",
        "128",
        'spec.training.batchSize: must be an integer, not "128"; write 128 without quotes',
    ),
    (
        f"{TRAINING}.batchSize",
        "many",
        'spec.training.batchSize: must be an integer, not "many"; write an integer of at least 1',
    ),
    (f"{TRAINING}.batchSize", 0, "spec.training.batchSize: must be at least 1, not 0"),
    (
        f"{TRAINING}.batch_size",
        128,
        "spec.training.batch_size: unknown field; write batchSize",
    ),
    (
        f"{TRAINING}.epoch",
        3,
        "spec.training.epoch: unknown field; did you mean epochs?",
    ),
    (
        f"{TRAINING}.learningRate",
        0.1,
        "spec.training.learningRate: unknown field; it belongs to "
        "spec.training.optimizer.learningRate",
    ),
    (
        f"{TRAINING}.workers.zebra",
        1,
        "spec.training.workers.zebra: unknown field; "
        "known fields: replicas, minReplicas, elastic, gpus, template, cache",
    ),
    (
        f"{TRAINING}.workers.a\nb\t",
        1,
        r"spec.training.workers.a\nb\t: unknown field; "
        "known fields: replicas, minReplicas, elastic, gpus, template, cache",
    ),
    (
        "metadata.anotations",
        {},
        "metadata.anotations: unknown field; did you mean annotations?",
    ),
    (
        f"{TRAINING}.strategy",
        {"parameterServer": {"kvStore": "device"}},
        'spec.training.strategy.parameterServer.kvStore: "device" is not possible; device belongs '
        "to spec.training.strategy.single; write one of dist_sync, dist_device_sync, dist_async",
    ),
    (
        "spec.dataset.source",
        {},
        f"spec.dataset.source: no kind is given; write one of {', '.join(SOURCES)}",
    ),
    (
        "spec.dataset.volume.size",
        "10 GB",
        'spec.dataset.volume.size: "10 GB" is malformed; write a quantity above zero, such as '
        "200Gi",
    ),
    (
        f"{TRAINING}.extraArgs",
        ["--lr=1"],
        "spec.training.extraArgs: --lr is set by the operator; write "
        "spec.training.optimizer.learningRate instead",
    ),
    (
        f"{TRAINING}.extraArgs",
        "--lr=1",
        'spec.training.extraArgs: must be a list, not "--lr=1"; write [--lr=1]',
    ),
    (
        f"{TRAINING}.extraArgs",
        ["--disp-batches", 20],
        'spec.training.extraArgs[1]: must be text, not 20; write "20" in quotes',
    ),
    (
        "spec.runPolicy.suspend",
        "True",
        'spec.runPolicy.suspend: must be true or false, not "True"; write true without quotes',
    ),
    (
        "spec.runPolicy.schedulingPolicy",
        {"gang": "timeout"},
        'spec.runPolicy.schedulingPolicy.gang: "timeout" is not possible; did you mean Timeout?',
    ),
    (
        f"{TRAINING}.framework",
        "Tensorflow",
        'spec.training.framework: "Tensorflow" is not possible; did you mean TensorFlow?',
    ),
    (
        f"{TRAINING}.model",
        {},
        "spec.training.model.network: is required; write a name that imagenetctl networks lists",
    ),
    (
        f"{TRAINING}.model",
        {"network": "resnet", "numLayers": 51},
        "spec.training.model.numLayers: 51 is not a depth of resnet; write one of 18, 34, 50, 101, "
        "152",
    ),
    (
        f"{TRAINING}.model",
        {"network": "resnet", "imageShape": [3, 28, 28]},
        "spec.training.model.numLayers: is required for a resnet for small images; write 6n+2, "
        "such as 20, 56 or 110",
    ),
    (
        f"{TRAINING}.model.numLayers",
        5,
        "spec.training.model.numLayers: lenet comes in one depth; remove it",
    ),
    (
        f"{TRAINING}.model.imageShape",
        [28, 28],
        "spec.training.model.imageShape: must have at least 3 items, not 2",
    ),
    (
        f"{TRAINING}.augmentation",
        {"randomResizedCrop": True, "maxRandomArea": 0.5},
        "spec.training.augmentation.minRandomArea: 1 is above maxRandomArea, 0.5; write 0.5 or "
        "less",
    ),
    (
        f"{TRAINING}.augmentation",
        {"randomResizedCrop": True, "minRandomAspectRatio": 0.75},
        "spec.training.augmentation.maxRandomAspectRatio: 0 is below minRandomAspectRatio, 0.75; "
        "write 0.75 or more",
    ),
    (
        f"{TRAINING}.augmentation",
        {"randomResizedCrop": True, "maxRandomAspectRatio": 1.33},
        "spec.training.augmentation.maxRandomAspectRatio: 1.33 without minRandomAspectRatio is a "
        "change, to ratios from 1 - 1.33, which is not above 0; write minRandomAspectRatio: 0.75 "
        "too, or a change below 1",
    ),
    (
        "spec.dataset",
        {
            "source": {"synthetic": {"imagesPerClass": 50}},
            "preprocessing": {"minImagesPerClass": 0},
            "volume": {"size": "10Gi"},
        },
        "spec.dataset.source.synthetic.imagesPerClass: 50 images leave none to train, since "
        "validation.split takes 50 of each class; write 51 or more, or a lower "
        "validation.split.imagesPerClass",
    ),
    (
        "spec.dataset",
        {
            "source": {"synthetic": {"classes": 7, "imagesPerClass": 51}},
            "preprocessing": {"minImagesPerClass": 0},
            "volume": {"size": "10Gi"},
        },
        "spec.dataset.preprocessing.shards: 8 shards are more than the 7 training images; "
        "write 7 or fewer, or more images",
    ),
    (
        f"{TRAINING}.image",
        "x" * 2000,
        "spec.training.image: must have at most 1024 characters, not 2000",
    ),
    (
        "metadata.name",
        "a" * 41,
        "metadata.name: has 41 characters, which leaves no room for the names of its pods; write "
        "at most 40",
    ),
    ("kind", "imagenetjob", "kind: is 'imagenetjob'; write ImageNetJob"),
    (
        f"{TRAINING}.workers.template",
        {"spec": {"restartPolicy": "Always"}},
        "spec.training.workers.template.spec.restartPolicy: cannot be overridden: the operator "
        "restarts whole attempts; remove it, or write Never",
    ),
]


@pytest.mark.parametrize(("path", "value", "sentence"), SENTENCES)
def test_a_problem_is_one_sentence_with_its_remedy(path: str, value: object, sentence: str) -> None:
    assert [str(problem) for problem in validate(changed(path, value))] == [sentence]


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
STRATEGY_SENTENCES = [
    (
        changed(f"{TRAINING}.framework", "TensorFlow"),
        "spec.training.strategy: TensorFlow has no strategy parameterServer; write one of horovod, "
        "mirrored, multiWorkerMirrored, or framework: MXNet with preprocessing.format: RecordIO",
        "spec.dataset.preprocessing.format: TensorFlow does not read RecordIO; write TFRecord",
    ),
    (
        changed(f"{TRAINING}.strategy", {"multiWorkerMirrored": {}}),
        "spec.training.strategy: MXNet has no strategy multiWorkerMirrored; write one of "
        "parameterServer, single, horovod, or framework: TensorFlow with preprocessing.format: "
        "TFRecord",
    ),
    (
        of_tensorflow({"mirrored": {}}),
        "spec.training.workers: must have 1 replica with the strategy mirrored, not 2; write "
        "replicas: 1, or strategy: {multiWorkerMirrored: {}}",
    ),
    (
        of_tensorflow({"horovod": {}}, model={"network": "mobilenet-v2"}),
        f"spec.training.model.network: TensorFlow has no mobilenet-v2; write one of {EVERYWHERE}, "
        "or framework: MXNet or PyTorch",
    ),
    (
        of_tensorflow({"horovod": {}}, optimizer={"name": "lbsgd"}),
        "spec.training.optimizer.name: TensorFlow has no lbsgd; write another, such as sgd, or "
        "framework: MXNet",
    ),
    (
        of_tensorflow({"horovod": {}}, augmentation={"maxRandomS": 1, "maxRandomH": 5}),
        "spec.training.augmentation: TensorFlow has no maxRandomH and no maxRandomS; remove "
        "it, or write framework: MXNet",
    ),
    (
        changed(f"{TRAINING}.augmentation", {"maxRandomL": 9, "brightness": 0.4, "pcaNoise": 0}),
        "spec.training.augmentation: MXNet has no maxRandomL and no brightness for images of 1 "
        "channel; remove it, or write model.imageShape: [3, 28, 28]",
    ),
    (
        of_pytorch({"single": {}}, workers={"gpus": 4}),
        "spec.training.workers.gpus: must be 1 or less with single, not 4: the process has one "
        "device; write gpus: 1, or strategy: {distributedDataParallel: {}}",
    ),
    (
        changed(f"{TRAINING}.precision", "float16"),
        "spec.training.precision: MXNet computes float16 on GPUs only; write float32, or "
        "workers.gpus",
    ),
    (
        of_horovod({"slotsPerWorker": 3}),
        "spec.training.batchSize: 128 is not divisible by 6 devices; write 126 or 132",
    ),
    (
        of_horovod({"slotsPerWorker": 3}, workers={"gpus": 8}),
        "spec.training.strategy.horovod.slotsPerWorker: 8 GPUs are not divisible by 3 slots; write "
        "one of 1, 2, 4, 8",
    ),
    (
        changed(
            f"{TRAINING}.workers.template",
            {"spec": {"containers": [{"name": "main", "command": ["bash"]}]}},
        ),
        "spec.training.workers.template.spec.containers[0].command: cannot be overridden: the "
        "operator runs its own program; extraArgs adds options; remove it, or write its image as "
        "spec.training.image",
    ),
]


@pytest.mark.parametrize("case", STRATEGY_SENTENCES, ids=lambda case: case[1].split(": ")[0])
def test_what_does_not_go_together_is_said_with_what_would(
    case: tuple[dict[str, Any], ...],
) -> None:
    document, *sentences = case
    assert sorted(str(problem) for problem in validate(document)) == sorted(map(str, sentences))


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
    document = changed(f"{TRAINING}.strategy", {"parameterServer": {}, "single": {}})
    assert [str(problem) for problem in validate(document)] == [
        "spec.training.workers: must have 1 replica with the strategy single, not 2; write "
        "replicas: 1, or strategy: {parameterServer: {}}",
        "spec.training.strategy: parameterServer and single are given together; keep one of "
        "parameterServer, single",
    ]


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
