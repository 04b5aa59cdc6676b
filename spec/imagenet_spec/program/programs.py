"""The programs of the pods besides `imagenet-train`, with their options.

In the order of a job: fetch, index, pack, seal and publish prepare its dataset; slots and the
rendezvous run several training processes, and track runs beside rank 0. The door serves a claim to
imagenetctl upload and download. inspect is no pod's: imagenetctl init runs it.
"""

from pathlib import Path
from typing import Any, Final

from imagenet_spec.names import (
    CODECS,
    DOOR_PORT,
    DOOR_PROGRAM,
    FORMATS,
    IMAGENET_SOURCE,
    MLFLOW_TRACKING_URI,
    RENDEZVOUS_PROGRAM,
    SLOTS_PROGRAM,
    TRACK_PROGRAM,
)
from imagenet_spec.program import kinds, sources
from imagenet_spec.program.option import OptionGroup, Program, option

_PREPROCESSING = "dataset.preprocessing"
_FILE: dict[str, Any] = {"read": kinds.path, "metavar": "FILE", "below": IMAGENET_SOURCE}


class PlannedOptions(OptionGroup):
    """The place of a dataset."""

    data: Path | None = option(None, "the dataset volume", kinds.path, metavar="FOLDER")
    key: str | None = option(
        None,
        "the dataset's key, as imagenet-index says it",
        kinds.key,
        metavar="KEY",
        programs=("imagenet-pack", "imagenet-seal"),
    )


class DatasetOptions(OptionGroup):
    """What the dataset holds: another value makes another dataset."""

    validation_per_class: int | None = option(
        None,
        "draw N validation images of each class by the seed (default: those of the source, if it "
        "has any)",
        kinds.count,
        metavar="N",
        field="dataset.validation.split.imagesPerClass",
    )
    default_validation_per_class: int | None = option(
        None,
        "the same, if the source has no validation images (default: none)",
        kinds.count,
        metavar="N",
    )
    format: str = option(
        FORMATS[0], "of the records", choices=FORMATS, field=f"{_PREPROCESSING}.format"
    )
    resize: int | None = option(
        None,
        "length of the shorter edge (default: no resize, and RGB JPEGs are copied unchanged)",
        kinds.edge,
        metavar="PIXELS",
        field=f"{_PREPROCESSING}.resize",
    )
    quality: int = option(
        90,
        "quality of re-encoded JPEGs, 1 to 100",
        kinds.quality,
        field=f"{_PREPROCESSING}.quality",
    )
    shards: int = option(
        8, "training shards", kinds.positive, metavar="N", field=f"{_PREPROCESSING}.shards"
    )
    min_images_per_class: int = option(
        1,
        "leave out classes with fewer images",
        kinds.count,
        metavar="N",
        field=f"{_PREPROCESSING}.minImagesPerClass",
    )
    class_words: Path | None = option(
        None,
        "words for the classes: lines of CLASS WORDS, meta.mat, or JSON (default: those of the "
        "source, if it has any)",
        field="dataset.source.volume.classWords",
        **_FILE,
    )
    class_word: tuple[kinds.ClassWords, ...] = option(
        (),
        "words for one class, in place of those of the file; may be repeated",
        kinds.class_words,
        metavar="CLASS=WORDS",
        is_repeated=True,
    )
    bounding_boxes: tuple[Path, ...] = option(
        (),
        "a tar of annotations in the XML of Pascal VOC, as ILSVRC2012_bbox_train_v2.tar.gz: "
        "CLASS/NAME.xml, and val/NAME.xml for validation images; may be repeated",
        field="dataset.source.volume.boundingBoxes",
        is_repeated=True,
        **_FILE,
    )
    seed: int = option(
        0,
        "of the validation split and of the order of images",
        kinds.count,
        field=f"{_PREPROCESSING}.seed",
    )


class CheckOptions(OptionGroup):
    """What another run may change."""

    max_skipped_fraction: float = option(
        0.001,
        "fail when more than this share of the images is damaged, or of the validation images is "
        "of unknown classes",
        kinds.fraction,
        metavar="F",
        field=f"{_PREPROCESSING}.maxSkippedFraction",
    )
    expected_classes: int | None = option(
        None,
        "fail unless the dataset has N classes",
        kinds.positive,
        metavar="N",
        field=f"{_PREPROCESSING}.expectedClasses",
    )
    expected_class_names: Path | None = option(
        None,
        "fail unless the dataset's classes are those of the file, one a line",
        field="dataset.source.volume.expectedClassNames",
        **_FILE,
    )
    codec: str = option(
        "auto",
        "what converts the images; planes needs libturbojpeg, and auto is the faster one for a "
        "sample of the images",
        choices=("auto", *CODECS),
    )


class SampleOptions(OptionGroup):
    """The images that are decoded."""

    images: int | None = option(
        None,
        "decode N images at most, chosen at random (default: all)",
        kinds.positive,
        metavar="N",
    )
    seconds: float = option(
        60.0,
        "decode no further image after this time",
        kinds.amount_above_zero,
        metavar="SECONDS",
    )


class RunOptions(OptionGroup):
    """What decides the speed alone."""

    shard: int | None = option(
        None,
        "number of the shard, training shards from 0, then validation shards "
        "(default: $JOB_COMPLETION_INDEX, or all shards)",
        kinds.count,
        metavar="I",
        programs=("imagenet-pack",),
    )
    threads: int | None = option(
        None,
        "cores to keep busy (default: those that this process may use)",
        kinds.positive,
        metavar="N",
    )


class VerifyOptions(OptionGroup):
    """A dataset that is sealed already."""

    dataset: Path | None = option(
        None,
        "instead of --data and --key, with --verify: the folder of a dataset.json, which is only "
        "read",
        kinds.path,
        metavar="FOLDER",
    )
    verify: bool = option(
        False,
        "read a sealed dataset again; one with damaged shards is no longer sealed, so that the "
        "next preparation makes these shards again",
        bool,
    )


class PublishOptions(OptionGroup):
    """A folder in a bucket."""

    dataset: Path | None = option(None, "a sealed dataset", kinds.path, metavar="FOLDER")
    model: Path | None = option(
        None,
        "instead of --dataset: an attempt's folder with its result.json; the model, its card and "
        "the curves are uploaded with the checkpoints of all attempts",
        kinds.path,
        metavar="FOLDER",
    )
    to: str | None = option(None, "s3://BUCKET/PREFIX", kinds.text, metavar="URL")
    endpoint: str | None = option(
        None,
        "the S3 API (default: that of AWS)",
        kinds.text,
        metavar="URL",
        field="dataset.publish.s3.endpoint",
    )
    region: str | None = option(
        None,
        "of the bucket (default: us-east-1)",
        kinds.text,
        metavar="NAME",
        field="dataset.publish.s3.region",
    )


class SlotsOptions(OptionGroup):
    """The processes of a pod."""

    slots: int | None = option(
        None, "the value of HOROVOD_LOCAL_SIZE or LOCAL_WORLD_SIZE", kinds.positive, metavar="N"
    )
    join_timeout: float = option(
        900,
        "the longest wait for the rendezvous",
        kinds.amount_above_zero,
        metavar="SECONDS",
    )
    termination_grace: float = option(
        30,
        "the time for the other slots to end after a slot has failed",
        kinds.amount,
        metavar="SECONDS",
    )


class TrackOptions(OptionGroup):
    """Where the events of a job go."""

    tensorboard: bool = option(
        False, "write event files for TensorBoard", bool, field="training.tracking.tensorBoard"
    )
    mlflow_experiment: str | None = option(
        None,
        "the experiment of an MLflow server that gets the run; without it none does",
        kinds.text,
        metavar="NAME",
        field="training.tracking.mlflow.experiment",
    )
    mlflow_uri_key: str = option(
        MLFLOW_TRACKING_URI,
        "the key of the Secret with the server's address",
        kinds.text,
        metavar="KEY",
        field="training.tracking.mlflow.uriFrom.secretKeyRef.key",
    )
    once: bool = option(False, "send what the logs have now, and end", bool)


class DoorOptions(OptionGroup):
    """What is served, and for how long."""

    folder: Path | None = option(
        None, "the folder that is served, such as a claim's", kinds.path, metavar="FOLDER"
    )
    writable: bool = option(False, "also take uploads", bool)
    port: int = option(
        DOOR_PORT, "the port on 127.0.0.1; 0 is any free one", kinds.port, metavar="N"
    )
    idle_seconds: float = option(
        600, "end after this time without a request", kinds.amount_above_zero, metavar="SECONDS"
    )
    results: str | None = option(
        None,
        "first fetch a job's uploaded results into the folder: s3://BUCKET/PREFIX; the keys are in "
        "$IMAGENET_CREDENTIALS/AWS_ACCESS_KEY_ID, …",
        kinds.text,
        metavar="URL",
    )
    into: Path | None = option(
        None,
        "the folder for the results (default: the one that is served)",
        kinds.path,
        metavar="FOLDER",
    )
    checkpoints: bool = option(False, "fetch the checkpoints of the results too", bool)
    endpoint: str | None = option(
        None, "the S3 API (default: that of AWS)", kinds.text, metavar="URL"
    )
    region: str | None = option(
        None, "of the bucket (default: us-east-1)", kinds.text, metavar="NAME"
    )


class PredictOptions(OptionGroup):
    """What classifies the images, and what is printed."""

    from_: Path | None = option(
        None,
        "a file that imagenetctl export wrote of this model: FILE.safetensors, .pt (torchscript) "
        "or .onnx",
        kinds.path,
        metavar="FILE",
    )
    top: int | None = option(
        None,
        "number of classes to print (default: 5, with --output csv 1)",
        kinds.positive,
        metavar="N",
    )
    output: str = option(
        "text",
        "text, or for scripts a JSON list or a CSV table with one row an image",
        choices=("text", "json", "csv"),
    )


_CACHE: dict[str, type[Any]] = {"a cache": sources.CacheOptions}

FETCH: Final = Program(sources.FETCH, {**sources.REMOTE, **_CACHE}, required=("cache",))
INDEX: Final = Program(
    sources.INDEX,
    {
        "output": PlannedOptions,
        **sources.LOCAL,
        **sources.REMOTE,
        **_CACHE,
        "layout of the source": sources.LayoutOptions,
        "options of the dataset": DatasetOptions,
        "checks": CheckOptions,
    },
    required=("data",),
)
INSPECT: Final = Program(
    sources.INSPECT,
    {
        **sources.LOCAL,
        **sources.REMOTE,
        **_CACHE,
        "layout of the source": sources.LayoutOptions,
        "sample": SampleOptions,
    },
)
PACK: Final = Program(
    sources.PACK,
    {
        "input": PlannedOptions,
        **sources.LOCAL,
        **sources.REMOTE,
        **_CACHE,
        "speed": RunOptions,
    },
    required=("data", "key"),
)
SEAL: Final = Program(
    "imagenet-seal",
    {"input": PlannedOptions, "verification": VerifyOptions, "speed": RunOptions},
)
PUBLISH: Final = Program("imagenet-publish", {"target": PublishOptions}, ("to",))
SLOTS: Final = Program(SLOTS_PROGRAM, {"slots": SlotsOptions}, required=("slots",))
RENDEZVOUS: Final = Program(RENDEZVOUS_PROGRAM, {})
TRACK: Final = Program(TRACK_PROGRAM, {"tracking": TrackOptions})
DOOR: Final = Program(DOOR_PROGRAM, {"door": DoorOptions}, required=("folder",))
PREDICT: Final = Program("imagenet-predict", {"classification": PredictOptions})
PROGRAMS: Final = (FETCH, INDEX, INSPECT, PACK, SEAL, PUBLISH, SLOTS, RENDEZVOUS, TRACK, DOOR)
