"""The options of each kind of source, of its cache and of its layout.

imagenet-fetch, imagenet-index and imagenet-pack open a source by them. A kind has a group here, its
fields in the resource and a module in the workloads (docs/add-a-source.md).
"""

from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args

from imagenet_spec.names import IMAGENET_SOURCE
from imagenet_spec.program import kinds
from imagenet_spec.program.option import MISSING, OptionGroup, objects, option

FETCH: Final = "imagenet-fetch"
INDEX: Final = "imagenet-index"
PACK: Final = "imagenet-pack"
INSPECT: Final = "imagenet-inspect"
LISTING = (FETCH, INDEX, INSPECT)
"""The programs that read more of a source than the images which pack reads."""

Layout = Literal[
    "devkit", "kaggle", "cifar", "webDataset", "parquet", "labels", "tree", "classFolders"
]
LAYOUTS: Final[tuple[Layout, ...]] = get_args(Layout)

_PATH: dict[str, Any] = {"read": kinds.path, "metavar": "PATH", "below": IMAGENET_SOURCE}
_IMAGES = "dataset.validation.path"
_LABELS = "dataset.validation.labels"


def _max_requests() -> Any:
    return option(
        None,
        "fail if listing the images and reading them take more requests (default: 4000000)",
        kinds.positive,
        metavar="N",
        programs=LISTING,
    )


_words = partial(
    option,
    None,
    "the file with words for the classes, as --class-words",
    kinds.text,
    programs=LISTING,
)
_boxes = partial(
    option,
    (),
    "an archive of annotations, as --bounding-boxes; may be repeated",
    kinds.text,
    is_repeated=True,
    programs=LISTING,
)


class VolumeOptions(OptionGroup):
    """A folder of class folders, or a tar or zip of class folders or class archives."""

    FIELD: ClassVar[str] = "dataset.source.volume"

    source: Path | None = option(
        None,
        "a folder of class folders, or a tar or zip of class folders or class archives",
        field="dataset.source.volume.path",
        **_PATH,
    )
    path_in_archive: str | None = option(
        None,
        "the folder or archive in --source that holds the classes (default: the folder that holds "
        "all of them)",
        kinds.text,
        metavar="PATH",
    )
    validation_source: Path | None = option(
        None,
        "a flat archive or folder with --validation-labels, as ILSVRC2012_img_val.tar, or one of "
        "class folders",
        field=_IMAGES,
        **_PATH,
    )
    validation_labels: Path | None = option(
        None,
        "its label file: lines of NAME CLASS, or of CLASS in the order of the images' names",
        field=_LABELS,
        programs=LISTING,
        **_PATH,
    )


class SyntheticOptions(OptionGroup):
    """Generated images instead of a source; the first three options go together."""

    FIELD: ClassVar[str] = "dataset.source.synthetic"
    PREFIX: ClassVar[str] = "synthetic_"

    synthetic_classes: int | None = option(
        None,
        "make images of C classes instead of reading a source",
        kinds.positive,
        metavar="C",
        programs=LISTING,
    )
    synthetic_images_per_class: int | None = option(
        None, "the images of each class", kinds.positive, metavar="N", programs=LISTING
    )
    synthetic_image_shape: tuple[int, int, int] | None = option(
        None,
        "channels, height and width in pixels",
        kinds.colour_shape,
        metavar="3,H,W",
        programs=LISTING,
    )


class ServedFile(OptionGroup):
    """A file on a server, as an object of --http-files."""

    name: str = option(MISSING, "by which other options refer to it", kinds.text)
    url: str = option(MISSING, "its address, without user and query", kinds.text)
    size_bytes: int | None = option(None, "its size", kinds.count)
    checksum: str | None = option(None, "of a label file or a fetched file", kinds.checksum)
    query_key: str | None = option(None, "of the Secret with the query of its URL", kinds.text)


class HttpOptions(OptionGroup):
    """The login is in $IMAGENET_CREDENTIALS/username and /password."""

    FIELD: ClassVar[str] = "dataset.source.http"
    PREFIX: ClassVar[str] = "http_"

    http_files: tuple[ServedFile, ...] = option(
        (),
        'the files: [{"name": NAME, "url": URL}, …], each with sizeBytes, checksum (sha256:DIGITS '
        "or md5:DIGITS) and queryKey (the key of the Secret with the query of its URL) if needed; "
        "other options refer to a file by its name",
        objects(ServedFile),
        metavar="JSON",
    )
    http_archive: str | None = option(
        None,
        "the file with the classes: a tar or zip of class archives, or of class folders "
        "(default: the first file)",
        kinds.text,
        metavar="NAME",
    )
    http_folder: str | None = option(
        None,
        "a folder with one archive for each class, or with shards of WebDataset; ends with /",
        kinds.text,
        metavar="URL",
        field="dataset.source.http.folder.url",
    )
    http_name: tuple[str, ...] = option(
        (),
        "an archive in --http-folder, or many, as train-{000..127}.tar; may be repeated",
        kinds.text,
        metavar="NAME",
        is_repeated=True,
        field="dataset.source.http.folder.names",
    )
    http_path_in_archive: str | None = option(
        None,
        "the folder or archive in --http-archive that holds the classes",
        kinds.text,
        metavar="PATH",
    )
    http_validation: str | None = option(
        None,
        "the file with the validation images: flat, as ILSVRC2012_img_val.tar, or an archive of "
        "class folders",
        kinds.text,
        metavar="NAME",
        field=_IMAGES,
    )
    http_max_requests: int | None = _max_requests()
    http_labels: str | None = option(
        None,
        "the file with the labels of --http-validation (default: its folders are classes)",
        kinds.text,
        metavar="NAME",
        field=_LABELS,
        programs=LISTING,
    )
    http_class_words: str | None = _words(metavar="NAME")
    http_bounding_boxes: tuple[str, ...] = _boxes(metavar="NAME")


class S3Options(OptionGroup):
    """The keys are in $IMAGENET_CREDENTIALS/AWS_ACCESS_KEY_ID and /AWS_SECRET_ACCESS_KEY."""

    FIELD: ClassVar[str] = "dataset.source.s3"
    PREFIX: ClassVar[str] = "s3_"

    s3_bucket: str | None = option(None, "the bucket of the images", kinds.text, metavar="NAME")
    s3_endpoint: str | None = option(
        None, "the S3 API (default: that of AWS)", kinds.text, metavar="URL"
    )
    s3_region: str | None = option(
        None, "the bucket's region (default: us-east-1)", kinds.text, metavar="NAME"
    )
    s3_key: str | None = option(
        None, "a tar or zip of class archives, or of class folders", kinds.text, metavar="KEY"
    )
    s3_prefix: str | None = option(
        None,
        "the prefix of class folders, or of a tree with both splits, if each image is an object; "
        "or of archives",
        kinds.text,
        metavar="PREFIX",
    )
    s3_path_in_archive: str | None = option(
        None,
        "the folder or archive in --s3-key with the classes",
        kinds.text,
        metavar="PATH",
    )
    s3_validation: str | None = option(
        None,
        "a tar or zip of validation images, or their prefix",
        kinds.text,
        metavar="KEY",
        field=_IMAGES,
    )
    s3_keys: tuple[str, ...] = option(
        (),
        "one of several archives: of a class each, or shards of WebDataset; may be repeated",
        kinds.text,
        metavar="KEY",
        is_repeated=True,
    )
    s3_max_requests: int | None = _max_requests()
    s3_labels: str | None = option(
        None,
        "the labels of --s3-validation",
        kinds.text,
        metavar="KEY",
        field=_LABELS,
        programs=LISTING,
    )
    s3_class_words: str | None = _words(metavar="KEY")
    s3_bounding_boxes: tuple[str, ...] = _boxes(metavar="KEY")
    s3_checksum: str | None = option(
        None,
        "sha256:DIGITS or md5:DIGITS of --s3-key, which imagenet-fetch compares",
        kinds.checksum,
        metavar="CHECKSUM",
        programs=LISTING,
    )


class HuggingFaceOptions(OptionGroup):
    """The token is in $IMAGENET_CREDENTIALS/HF_TOKEN."""

    FIELD: ClassVar[str] = "dataset.source.huggingFace"
    PREFIX: ClassVar[str] = "hf_"

    hf_dataset: str | None = option(
        None, "the dataset, as ILSVRC/imagenet-1k", kinds.text, metavar="NAME"
    )
    hf_endpoint: str | None = option(
        None,
        "the server (default: $HF_ENDPOINT, or https://huggingface.co)",
        kinds.endpoint,
        metavar="URL",
    )
    hf_revision: str | None = option(
        None,
        "a branch, tag or commit (default: the default branch)",
        kinds.text,
        metavar="NAME",
    )
    hf_path: str | None = option(
        None, "a file or folder of the dataset (default: all of it)", kinds.text, metavar="PATH"
    )
    hf_max_requests: int | None = _max_requests()


class KaggleOptions(OptionGroup):
    """The key is in $IMAGENET_CREDENTIALS/KAGGLE_API_TOKEN, or in /username and /key."""

    FIELD: ClassVar[str] = "dataset.source.kaggle"
    PREFIX: ClassVar[str] = "kaggle_"

    kaggle_competition: str | None = option(
        None, "the competition, as in the address of its page", kinds.text, metavar="NAME"
    )
    kaggle_dataset: str | None = option(
        None, "the dataset, as in the address of its page", kinds.text, metavar="OWNER/NAME"
    )
    kaggle_file: str | None = option(
        None,
        "one file: an archive or a Parquet file (default: a zip of all)",
        kinds.text,
        metavar="PATH",
    )
    kaggle_path_in_archive: str | None = option(
        None, "the folder or archive in it that holds the classes", kinds.text, metavar="PATH"
    )
    kaggle_endpoint: str | None = option(
        None, "the server (default: https://www.kaggle.com)", kinds.endpoint, metavar="URL"
    )
    kaggle_version: int | None = option(
        None, "the version of the dataset (default: the newest)", kinds.positive, metavar="N"
    )
    kaggle_max_requests: int | None = _max_requests()


class PreparedOptions(OptionGroup):
    """Make a dataset of smaller images or of another format.

    Its classes, order and validation images stay.
    """

    FIELD: ClassVar[str] = "dataset.source.prepared"

    prepared: Path | None = option(
        None, "the folder of its dataset.json", field="dataset.source.prepared.path", **_PATH
    )


class CacheOptions(OptionGroup):
    """The volume where imagenet-fetch stores the files of a server or a bucket."""

    cache: Path | None = option(
        None,
        "the volume where imagenet-fetch stores the files of a server or a bucket",
        kinds.path,
        metavar="FOLDER",
    )
    read_annotations: bool = option(
        False,
        "read the bounding boxes beside the images, if the source is a tree as Kaggle's: "
        "Annotations/CLS-LOC beside Data/CLS-LOC",
        bool,
        field="dataset.source.*.readAnnotations",
        programs=LISTING,
    )
    connections: int = option(
        8,
        "the most requests at the same time",
        kinds.positive,
        metavar="N",
        field="dataset.source.*.cache.connections",
        programs=(FETCH,),
    )


def _of_split(name: str, field: str, description: str) -> Any:
    return option(
        (),
        f"the {name} images: {description}",
        kinds.text,
        metavar="FILE" if field == "list" else "GLOB",
        is_repeated=True,
        field=f"dataset.source.splits.{name}.{field}",
    )


_PATTERN = "a pattern of their paths in the source, such as '{}/**'; may be repeated"
_LIST = "a file in the source, each line the end of an image's path"


class LayoutOptions(OptionGroup):
    """By default, each of these is found by the whole listing."""

    layout: str | None = option(
        None,
        "the layout, in place of judging it",
        choices=LAYOUTS,
        field="dataset.source.layout",
    )
    split_train: tuple[str, ...] = _of_split("train", "globs", _PATTERN.format("train"))
    split_train_list: tuple[str, ...] = _of_split("train", "list", _LIST)
    split_validation: tuple[str, ...] = _of_split(
        "validation", "globs", _PATTERN.format("validation")
    )
    split_validation_list: tuple[str, ...] = _of_split("validation", "list", _LIST)
    split_table: str | None = option(
        None,
        "both splits: a file in the source with lines of NUMBER and 1 (train) or 0",
        kinds.text,
        metavar="FILE",
        field="dataset.source.splits.table",
    )
    split_ids: str | None = option(
        None,
        "the lines of NUMBER PATH to it",
        kinds.text,
        metavar="FILE",
        field="dataset.source.splits.ids",
    )
    class_level: int | None = option(
        None,
        "the level of the folders that are classes, below a split or the source (default: 1)",
        kinds.positive,
        metavar="N",
        field="dataset.source.classLevel",
    )
    labels_csv: str | None = option(
        None,
        "a table in the source with the class of each image, separated by , ; or tab",
        kinds.text,
        metavar="FILE",
        field="dataset.source.labels.csv",
    )
    labels_image_column: str | None = option(
        None,
        "its column of images",
        kinds.text,
        metavar="HEADING",
        field="dataset.source.labels.imageColumn",
    )
    labels_class_column: str | None = option(
        None,
        "its column of classes",
        kinds.text,
        metavar="HEADING",
        field="dataset.source.labels.classColumn",
    )
    labels_pattern: str | None = option(
        None,
        r"the class by the image's file name: the group of a pattern such as '^(cat|dog)\.'",
        kinds.class_pattern,
        metavar="REGEX",
        field="dataset.source.labels.pattern",
    )


LOCAL: dict[str, type[Any]] = {
    "images under a path": VolumeOptions,
    "synthetic images": SyntheticOptions,
    "a sealed dataset": PreparedOptions,
}
"""The options of each kind of source on a volume or on none, by their title in `--help`."""

REMOTE: dict[str, type[Any]] = {
    "images on a server": HttpOptions,
    "images in a bucket": S3Options,
    "a dataset of Hugging Face": HuggingFaceOptions,
    "a competition or dataset of Kaggle": KaggleOptions,
}
"""The options of each kind whose files a cache may hold."""
