"""The first manifest of a source: what fits the images and the machine, each choice with a reason.

`imagenetctl init` calls `decide`, a pure function of what imagenet-inspect found, the machine and
the measured speed. The choices aim at a result in minutes and are starting points: a training that
matters needs its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from imagenet_spec.errors import ImageNetJobError
from imagenet_spec.frameworks import DEFAULT_FRAMEWORK, FRAMEWORKS
from imagenet_spec.program.train import SMALL_IMAGE
from imagenet_spec.resource import Manifest, networks
from imagenet_spec.resource.fields import JOB_NAME_MAXIMUM
from imagenet_spec.resource.frameworks import family_of
from imagenet_spec.resource.job import GROUP, KIND, LOCAL_PATH, LOCAL_WEIGHTS, VERSION
from imagenet_spec.strategies import STRATEGIES

_FEWEST = 5
"""Images of a class that can be learnt, and of which one can validate."""

_VALIDATION_SHARE = 0.2
_STEPS = 15
"""The fewest optimizer steps of an epoch, if the images allow it."""

_SECONDS_ON_CPUS = 150
"""The training time on CPUs for which epochs are chosen: first predictions come in 5 minutes."""

_FEWEST_STEPS = 600
"""Optimizer steps in which a network learns something, however long they take."""

_CORE_GFLOPS = 20.0
"""Estimate of a core, in float32: an idle one measured 33 to 37."""

_GPUS_OF_A_NODE = 8


class Gpu(NamedTuple):
    """A type of GPU: its compute capability, and what training a ResNet-50 on it may reach."""

    capability: tuple[int, int]
    gflops: float


GPUS = {
    "B200": Gpu((10, 0), 60_000),
    "H200": Gpu((9, 0), 36_000),
    "H100": Gpu((9, 0), 34_000),
    "A100": Gpu((8, 0), 17_000),
    "L40S": Gpu((8, 9), 15_000),
    "A40": Gpu((8, 6), 10_000),
    "A10": Gpu((8, 6), 8_000),
    "RTX 4090": Gpu((8, 9), 15_000),
    "RTX 3090": Gpu((8, 6), 9_000),
    "L4": Gpu((8, 9), 5_000),
    "V100": Gpu((7, 0), 9_000),
    "T4": Gpu((7, 5), 3_500),
}
"""Known types, by the part of the name that nvidia-smi and clouds have in common."""


class Reach(NamedTuple):
    """A network for up to so many training images.

    A network of one depth has no `num_layers`. `side` is the height and width of its images in
    pixels, `gflops` what one image takes forward, `epochs` enough to learn so many images from
    random weights.
    """

    images: float
    network: str
    num_layers: int | None
    side: int
    gflops: float
    epochs: int


_SMALL = (
    Reach(500, "resnet", 20, 32, 0.041, 100),
    Reach(5_000, "resnet", 20, 32, 0.041, 60),
    Reach(math.inf, "resnet", 20, 32, 0.041, 30),
)
"""For images of icons' size, on any device."""

_PHOTOGRAPHS_ON_CPUS = (
    Reach(500, "resnet", 18, 64, 0.15, 80),
    Reach(5_000, "resnet", 18, 64, 0.15, 60),
    Reach(math.inf, "resnet", 18, 64, 0.15, 30),
)
_PHOTOGRAPHS_ON_GPUS = (
    Reach(2_000, "resnet", 18, 128, 0.6, 100),
    Reach(20_000, "resnet", 34, 160, 1.9, 60),
    Reach(200_000, "resnet", 50, 224, 4.1, 60),
    Reach(math.inf, "resnet", 50, 224, 4.1, 30),
)
_SMALL_EDGE = 48
_TORCHVISION = re.compile(
    r"(?:(?P<family>resnet|vgg|densenet)(?P<depth>\d+)(?P<bn>_bn)?"
    r"|(?P<alone>alexnet|mobilenet_v2|inception_v3))(?![a-z0-9_])"
)
_TIMM = re.compile(r"(?:models--)?timm--(?P<name>[a-z0-9_]+)")
_FIXED = 224
"""The side for a network of timm that may have a fixed input, and for fine-tuning on GPUs."""

_ANY_SIDE = ("resnet", "resnext", "mobilenet", "efficientnet", "convnext", "regnet")
_FINE_TUNING_ON_CPUS = 128


class Weights(NamedTuple):
    """A file of weights to start from, and the network that it is of.

    `path` is the source from the manifest's folder, `where` says in words where it comes from.
    """

    file: str
    source: Path
    path: str
    where: str
    network: str
    num_layers: int | None


@dataclass(frozen=True)
class Machine:
    """What trains; `gpu_type` is empty if it is not known, `is_here` says if it is this machine."""

    cores: int
    frameworks: Sequence[str]
    gpus: int = 0
    gpu_type: str = ""
    is_here: bool = True

    @property
    def gpu(self) -> Gpu | None:
        words = self.gpu_type.upper().replace("-", " ")
        known = sorted(GPUS, key=len, reverse=True)
        found = (name for name in known if re.search(rf"\b{name}(?![0-9])", words))
        return next((GPUS[name] for name in found), None)

    def __str__(self) -> str:
        if not self.gpus:
            return "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"{self.gpus} {self.gpu_type or 'GPU'}{'' if self.gpus == 1 else 's'}"


@dataclass(frozen=True)
class Survey:
    """What imagenet-inspect found.

    Attributes:
        where: The source in messages.
        classes: Training images of each class.
        validation: The source's own validation images; None without any.
        unknown: Those of classes that the training images lack.
        bytes: Of the training images.
        said: How they are read.
        warnings: What may be meant otherwise.
        sample: Images that were decoded.
        is_whole: Whether these are all.
        damaged: Damaged images of them, by class.
        damaged_files: The names of the first, each with the reason.
        copies: Files of them with the bytes of another.
        copied_files: The first groups of equal files.
        conflicts: Groups of them in several classes or splits.
        turned: Images that EXIF turns.
        shorter_edge: The median of the shorter edges, in pixels; 0 if it is not known.
        largest_edge: The largest of them.
    """

    where: str
    classes: Mapping[str, int]
    validation: int | None = None
    unknown: int = 0
    bytes: int = 0
    said: str = ""
    warnings: Sequence[str] = ()
    sample: int = 0
    is_whole: bool = True
    damaged: Mapping[str, int] = field(default_factory=dict)
    damaged_files: Sequence[tuple[str, str]] = ()
    copies: int = 0
    copied_files: Sequence[Sequence[str]] = ()
    conflicts: int = 0
    turned: int = 0
    shorter_edge: int = 0
    largest_edge: int = 0

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Survey:
        sample, own = document["sample"], document["validation"]
        return cls(
            where=document["where"],
            classes=document["classes"],
            validation=None if own is None else own["images"],
            unknown=0 if own is None else own["unknown"],
            bytes=document["bytes"],
            said=document["said"],
            warnings=document["warnings"],
            sample=sample["images"],
            is_whole=sample["isWhole"],
            damaged=sample["damaged"],
            damaged_files=[(one["name"], one["reason"]) for one in sample["damagedFiles"]],
            copies=sample["copies"],
            copied_files=sample["copiedFiles"],
            conflicts=sample["conflicts"],
            turned=sample["turned"],
            shorter_edge=sample["shorterEdge"]["median"],
            largest_edge=sample["shorterEdge"]["largest"],
        )

    @property
    def images(self) -> int:
        return sum(self.classes.values()) + (self.validation or 0)

    def good(self, name: str) -> int:
        return self.classes[name] - self.damaged.get(name, 0)


class First(NamedTuple):
    """The first manifest, with a reason for fields by their paths.

    The header stands above it, and the warnings are what the user should look at.
    """

    manifest: Manifest
    reasons: Mapping[tuple[str, ...], str]
    header: Sequence[str]
    warnings: Sequence[str]


def job_name(text: str) -> str:
    """Return a name for a job from that of a folder or file: a DNS-1035 label."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    named = plain if plain[:1].isalpha() else f"images-{plain}"
    return named[:JOB_NAME_MAXIMUM].strip("-")


def weights_of(name: str) -> tuple[str, int | None] | None:
    """Return the network and depth that the name of a file of weights says; None if none.

    torchvision and timm name files resnet18-f37072fd.pth and models--timm--resnet18.
    """
    if found := _TIMM.search(name):
        return f"timm/{found['name']}", None
    found = _TORCHVISION.match(name.lower())
    if found is None:
        return None
    if found["alone"]:
        return found["alone"].replace("_", "-"), None
    return found["family"] + ("-bn" if found["bn"] else ""), int(found["depth"])


def framework(machine: Machine, *, pretrained: bool) -> tuple[str, str]:
    """Return the framework that trains, and why.

    Raises:
        ImageNetJobError: None is installed that can.
    """
    # The one whose build is for the newest GPUs first, and without GPUs the default.
    order = sorted(FRAMEWORKS, key=lambda name: FRAMEWORKS[name].gpu_code.newest, reverse=True)
    if not machine.gpus:
        order.sort(key=lambda name: name != DEFAULT_FRAMEWORK)
    gpu = machine.gpu
    able = [
        name
        for name in order
        if not (pretrained and "pretrained" in FRAMEWORKS[name].lacks)
        and not (machine.gpus and gpu and not FRAMEWORKS[name].gpu_code.runs_on(gpu.capability))
    ]
    found = [name for name in able if name in machine.frameworks]
    if not found:
        what = "starts from a file of weights" if pretrained else f"trains on {machine}"
        here = ", ".join(machine.frameworks) or "none"
        raise ImageNetJobError(
            f"no framework that {what} is installed (installed: {here}); install "
            f"{' or '.join(able)}"
        )
    if pretrained:
        return found[0], "It starts from a file of weights."
    also = f"; {' and '.join(found[1:])} would do, too" if len(found) > 1 else ""
    return found[0], f"Installed{also}."


def decide(
    survey: Survey,
    machine: Machine,
    *,
    name: str,
    source: Mapping[str, Any],
    local_path: str | None = None,
    weights: Weights | None = None,
    speed: float | None = None,
) -> First:
    """Decide on a manifest, for `spec.dataset.source`.

    `local_path` is the folder of the source's claim from the manifest's folder. Without the speed,
    in images/s of 20 real steps, it is estimated.

    Raises:
        ImageNetJobError: There are too few images, or no framework is installed.
    """
    warnings = _warnings(survey)
    reasons: dict[tuple[str, ...], str] = {}
    dataset, train, classes = _dataset(survey, source, reasons, warnings)
    training, resize, timing = _training(survey, machine, weights, speed, train, classes, reasons)
    preprocessing = dataset["preprocessing"]
    if FRAMEWORKS[training["framework"]].formats[0] != "RecordIO":
        preprocessing["format"] = FRAMEWORKS[training["framework"]].formats[0]
    if resize is not None:
        preprocessing["resize"] = resize
        reasons["spec", "dataset", "preprocessing", "resize"] = (
            "Shorter edge of the packed images: a little above the network's "
            f"{training['model']['imageShape'][1]} pixels. The median of the source is "
            f"{survey.shorter_edge or 'not known'}."
        )
    dataset["volume"] = _volume(survey, resize, machine, reasons)
    annotations: dict[str, str] = {}
    if local_path is not None:
        annotations[LOCAL_PATH] = local_path
        reasons["metadata", "annotations", LOCAL_PATH] = (
            "`imagenetctl run` reads the images here, relative to this file, unless --volume is "
            "given. A cluster reads them from the claim below."
        )
    if weights is not None:
        annotations[LOCAL_WEIGHTS] = weights.path
        reasons["metadata", "annotations", LOCAL_WEIGHTS] = (
            "`imagenetctl run` copies the weights from here. On a cluster, copy them to the "
            "dataset's volume, as model.pretrained below."
        )
    metadata: dict[str, Any] = {"name": name}
    if annotations:
        metadata["annotations"] = annotations
    manifest = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": metadata,
        "spec": {"dataset": dataset, "training": training},
    }
    found = f"{survey.images:,} images of {classes} classes"
    header = [f"Written by imagenetctl init from {survey.where}: {found}.", *warnings, timing]
    return First(manifest, reasons, header, warnings)


def _warnings(survey: Survey) -> list[str]:
    found = list(survey.warnings)
    damaged = sum(survey.damaged.values())
    if damaged:
        names = "; ".join(f"{file}: {reason}" for file, reason in survey.damaged_files[:3])
        more = "; …" if damaged > 3 else ""
        found.append(f"{_count(damaged, 'damaged file')}, which the job leaves out: {names}{more}")
    if survey.copies:
        names = "; ".join(" = ".join(group) for group in survey.copied_files[:3])
        more = "; …" if len(survey.copied_files) > 3 else ""
        verb = "equals another one" if survey.copies == 1 else "equal other ones"
        found.append(f"{_count(survey.copies, 'file')} {verb}, byte by byte: {names}{more}")
    if survey.conflicts:
        found.append(
            f"{_count(survey.conflicts, 'group')} of equal files in several classes or splits: "
            "remove the wrong ones, since accuracy is misleading with them"
        )
    return found


def _dataset(
    survey: Survey,
    source: Mapping[str, Any],
    reasons: dict[tuple[str, ...], str],
    warnings: list[str],
) -> tuple[dict[str, Any], int, int]:
    """Return `spec.dataset` but for resize and volume, the training images, and the classes."""
    path = ("spec", "dataset")
    few = {name: survey.good(name) for name in survey.classes if survey.good(name) < _FEWEST}
    kept = [name for name in survey.classes if name not in few]
    if len(kept) < 2:
        counts = ", ".join(f"{name} {survey.good(name)}" for name in list(survey.classes)[:10])
        raise ImageNetJobError(
            f"{survey.where}: a network needs two classes of at least {_FEWEST} good images "
            f"({counts}); add images"
        )
    if few:
        named = ", ".join(f"{name} ({count})" for name, count in list(few.items())[:10])
        warnings.append(
            f"{_count(len(few), 'class', 'classes')} of fewer than {_FEWEST} good images, left "
            f"out: {named}{', …' if len(few) > 10 else ''}"
        )
    smallest = min(kept, key=lambda name: survey.classes[name])
    # A class that is left out may have as many files, some of them damaged.
    fewest = max(1, max((survey.classes[name] + 1 for name in few), default=1))
    least = min(max(fewest, survey.classes[smallest]), survey.classes[smallest])
    counted = ", ".join(f"{name} {survey.classes[name]}" for name in kept[:12])
    rest = f" and {len(kept) - 12} more classes" if len(kept) > 12 else ""
    reasons[*path, "source"] = f"Images: {counted}{rest}. Read as {survey.said}."
    dataset: dict[str, Any] = {"source": dict(source)}
    train = sum(survey.classes[name] for name in kept)
    if survey.validation:
        reasons[*path, "source"] += (
            f" The source has {survey.validation:,} validation images, which validate."
        )
    else:
        each = max(1, min(50, int(_VALIDATION_SHARE * min(map(survey.good, kept)))))
        dataset["validation"] = {"split": {"imagesPerClass": each}}
        reasons[*path, "validation"] = (
            f"A fifth of the smallest class, {smallest}, and as many of each other class; 50 at "
            "most. The source has no validation images."
        )
        train -= each * len(kept)
    preprocessing: dict[str, Any] = {"minImagesPerClass": least}
    dataset["preprocessing"] = preprocessing
    reasons[*path, "preprocessing", "minImagesPerClass"] = (
        f"The smallest class, {smallest}; with the default of 500 it would be left out."
        if least < 500
        else "The smallest class."
    )
    fraction, why = _skipped(survey)
    if fraction is not None:
        preprocessing["maxSkippedFraction"] = fraction
        reasons[*path, "preprocessing", "maxSkippedFraction"] = why
    shards = max(1, min(256, train // 20_000))
    preprocessing["shards"], preprocessing["parallelism"] = shards, min(shards, 8)
    reasons[*path, "preprocessing", "shards"] = (
        "Files of the prepared dataset: one for each 20,000 images."
    )
    return dataset, train, len(kept)


def _skipped(survey: Survey) -> tuple[float | None, str]:
    """Return the share of images that may be left out, and why; None for the default."""
    damaged, default = sum(survey.damaged.values()), 0.001
    if not survey.is_whole:
        share = max(0.01, 2 * damaged / max(1, survey.sample))
        return min(1.0, _rounded_up(share)), (
            f"{damaged} of {survey.sample} decoded images are damaged; the others were not decoded."
        )
    # Of the images of one split, by the smaller one.
    total = min(filter(None, (sum(survey.classes.values()), survey.validation)))
    needed = max(damaged / total, survey.unknown / (survey.validation or 1))
    if needed <= default and damaged < default * total:
        return None, ""
    unknown = f", and {survey.unknown} of unknown classes" if survey.unknown else ""
    return min(1.0, _rounded_up(needed)), f"Room for {_count(damaged, 'damaged image')}{unknown}."


def _rounded_up(share: float) -> float:
    return math.ceil(share * 1000 - 1e-9) / 1000


def _training(
    survey: Survey,
    machine: Machine,
    weights: Weights | None,
    speed: float | None,
    train: int,
    classes: int,
    reasons: dict[tuple[str, ...], str],
) -> tuple[dict[str, Any], int | None, str]:
    """Return `spec.training`, the shorter edge of packed images, and the sentence on the time."""
    path = ("spec", "training")
    used, why = framework(machine, pretrained=weights is not None)
    reasons[*path, "framework"] = why
    reach, reasons[*path, "model"] = _network(survey, machine, weights, train)
    batch = _batch(train, machine)
    reasons[*path, "batchSize"] = (
        f"An epoch of {train:,} images has {max(1, train // batch)} steps."
    )
    rate = _estimate(reach, machine) if speed is None else speed
    epochs = reach.epochs
    if not machine.gpus:
        steps = _FEWEST_STEPS // (3 if weights is not None else 1)
        fewest = max(3, min(epochs, steps * batch // train))
        epochs = max(fewest, min(epochs, int(_SECONDS_ON_CPUS * rate / train)))
    each = train / rate
    how = (
        "estimated, not measured"
        if speed is None
        else f"from 20 real steps of {speed:,.0f} images/s"
    )
    fewer = f"{reach.epochs} would be better, if there is time. " if epochs < reach.epochs else ""
    timing = (
        f"An epoch takes about {_duration(each)} on {machine} ({how}), all {epochs} "
        f"about {_duration(each * epochs)}."
    )
    reasons[*path, "epochs"] = f"{fewer}{timing}"
    model: dict[str, Any] = {"network": reach.network}
    if reach.num_layers is not None:
        model["numLayers"] = reach.num_layers
    model["imageShape"] = [3, reach.side, reach.side]
    if weights is not None:
        model["pretrained"] = f"pretrained/{weights.file}"
    training: dict[str, Any] = {
        "framework": used,
        "strategy": _strategy(used, machine),
        "model": model,
        "batchSize": batch,
        "epochs": epochs,
    }
    if precision := _precision(used, machine):
        training["precision"], reasons[*path, "precision"] = precision
    learning_rate = 0.1 * math.sqrt(batch / 64) * (1 if weights is None else 0.1)
    training["optimizer"] = {
        "learningRate": float(f"{learning_rate:.1g}"),
        "schedule": "cosine",
        "warmupEpochs": min(5, epochs // 10),
        "weightDecay": 0.0005,
    }
    reasons[*path, "optimizer"] = (
        "Small steps, which keep what the weights know."
        if weights is not None
        else f"The usual rate of SGD for a batch of {batch}, falling to 0 at the end."
    )
    training["labelSmoothing"] = 0.1
    training["augmentation"], reasons[*path, "augmentation"] = _augmentation(reach, weights)
    saved = max(1, min(epochs, round(60 / each))) if each < 60 else 1
    training["checkpoint"] = {"everyEpochs": saved}
    reasons[*path, "checkpoint"] = "About one a minute; after a failure, training resumes there."
    if machine.gpus:
        pods = _pods(machine)
        training["workers"] = {"replicas": pods, "gpus": machine.gpus // pods}
        reasons[*path, "workers"] = f"{machine}; at most {_GPUS_OF_A_NODE} in a pod."
    edge = round(reach.side * 8 / 7)
    resize = None if 0 < survey.largest_edge <= edge else edge
    return training, resize, timing


def _network(
    survey: Survey, machine: Machine, weights: Weights | None, train: int
) -> tuple[Reach, str]:
    if weights is not None:
        return _fine_tuned(weights, machine, train)
    table: Sequence[Reach]
    edge = survey.shorter_edge
    if 0 < edge <= _SMALL_EDGE:
        table, size = _SMALL, f"The images are small ({edge} pixels)"
    elif machine.gpus:
        table, size = _PHOTOGRAPHS_ON_GPUS, "A GPU trains photographs"
    else:
        table, size = _PHOTOGRAPHS_ON_CPUS, "CPUs train small photographs in minutes"
    reach = next(one for one in table if train <= one.images)
    many = "few images need a small network" if train < 20_000 else "many images allow a large one"
    return reach, (
        f"{size}, and {many}. With more time or a GPU, take larger images and a deeper network "
        "(imagenetctl networks)."
    )


def _fine_tuned(weights: Weights, machine: Machine, train: int) -> tuple[Reach, str]:
    is_timm = weights.network.startswith("timm/")
    is_of_any_side = not is_timm or weights.network.partition("/")[2].startswith(_ANY_SIDE)
    side = _FINE_TUNING_ON_CPUS if not machine.gpus and is_of_any_side else _FIXED
    if not is_timm:
        side = max(side, family_of(weights.network).smallest)
        if weights.network == "vgg" or weights.network == "vgg-bn" or weights.network == "alexnet":
            side = networks.own_side(weights.network)
    depth = {18: 1.8, 34: 3.7, 50: 4.1, 101: 7.8, 152: 11.5}.get(weights.num_layers or 0, 4.0)
    epochs = 15 if train < 2_000 else 8 if train < 20_000 else 5
    reach = Reach(
        math.inf,
        weights.network,
        weights.num_layers,
        side,
        depth * (side / networks.USUAL_SIDE) ** 2,
        epochs,
    )
    return reach, (
        f"The network of {weights.file}, {weights.where}. Its last layer is made new, for these "
        "classes."
    )


def _batch(train: int, machine: Machine) -> int:
    """Return a power of two of images, with enough steps an epoch; a multiple of the GPUs."""
    most = 256 * machine.gpus if machine.gpus else 64
    wanted = max(8, min(most, train // _STEPS))
    batch: int = 2 ** int(math.log2(wanted))
    gpus = max(1, machine.gpus)
    return max(gpus, batch // gpus * gpus)


def _estimate(reach: Reach, machine: Machine) -> float:
    """Return images/s by the operations of the network: three times those of the forward pass."""
    known = machine.gpu or Gpu((0, 0), 8_000)
    gflops = machine.gpus * known.gflops if machine.gpus else machine.cores * _CORE_GFLOPS
    # Small networks leave GPUs idle.
    return min(gflops / (3 * reach.gflops), 10_000.0 * max(1, machine.gpus))


def _strategy(framework: str, machine: Machine) -> dict[str, Any]:
    pods = _pods(machine)
    kinds = FRAMEWORKS[framework].strategies
    alone = alone_of(framework)
    if pods == 1 and (machine.gpus <= 1 or not kinds[alone].one_gpu_a_process):
        return {alone: {}}
    if "parameterServer" in kinds:
        return {"parameterServer": {"kvStore": "dist_device_sync", "servers": {"replicas": pods}}}
    elastic = (kind for kind in kinds if STRATEGIES[kind].is_elastic)
    return {next(kind for kind in elastic if not STRATEGIES[kind].library): {}}


def alone_of(framework: str) -> str:
    """Return the strategy by which a framework trains in one worker."""
    kinds = FRAMEWORKS[framework].strategies
    return next(kind for kind in kinds if STRATEGIES[kind].rendezvous == "none")


def _pods(machine: Machine) -> int:
    """Return the fewest pods that share the GPUs equally, with no more each than a node has."""
    gpus = machine.gpus
    least = -(-gpus // _GPUS_OF_A_NODE)
    return next((pods for pods in range(least, gpus) if pods and gpus % pods == 0), max(1, gpus))


def _precision(framework: str, machine: Machine) -> tuple[str, str] | None:
    """Return the precision and why; None where the framework has one alone."""
    lacking = FRAMEWORKS[framework].lacks_precisions
    if not machine.gpus:
        return None if "float16" in lacking else ("float32", "CPUs are slower in 16 bits.")
    gpu = machine.gpu
    if gpu is None:
        return None if "float16" in lacking else ("float32", "The GPU's type is not known.")
    wanted = "bfloat16" if gpu.capability >= (8, 0) and "bfloat16" not in lacking else "float16"
    if wanted in lacking:
        return None
    return wanted, f"{machine.gpu_type} is faster in 16 bits, with weights in float32."


def _augmentation(reach: Reach, weights: Weights | None) -> tuple[dict[str, Any], str]:
    why = "Random changes make more of few images. Remove randomMirror if left and right differ."
    if reach.side <= SMALL_IMAGE:
        return {"randomCrop": True, "padSize": 4, "randomMirror": True}, why
    return {
        "randomResizedCrop": True,
        "minRandomArea": 0.5 if weights is not None else 0.35,
        "minRandomAspectRatio": 0.75,
        "maxRandomAspectRatio": 1.333,
        "randomMirror": True,
    }, why


def _volume(
    survey: Survey,
    resize: int | None,
    machine: Machine,
    reasons: dict[tuple[str, ...], str],
) -> dict[str, Any]:
    packed = float(survey.bytes)
    if resize is not None:
        # A photograph is 3:2, and JPEG at quality 90 takes 3 bits a pixel.
        packed = survey.images * resize**2 * 1.5 * 0.4
    size = max(2, math.ceil(1.5 * packed / 2**30) + 1)
    volume: dict[str, Any] = {"size": f"{size}Gi"}
    several = _pods(machine) > 1
    if not several:
        volume["accessModes"] = ["ReadWriteOnce"]
    nodes = "Several nodes need ReadWriteMany." if several else "One node uses it."
    reasons["spec", "dataset", "volume"] = (
        f"For the packed images, about {math.ceil(packed / 2**20):,} MiB, the checkpoints and the "
        f"model. {nodes}"
    )
    return volume


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"
