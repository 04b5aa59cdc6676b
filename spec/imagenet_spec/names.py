"""The names that the operator and the programs of its pods share.

The operator sets the variables of a pod and acts on its exit code; the programs read the variables
and end with the code. Both find a dataset and what a job has trained by the names of files.
"""

from collections.abc import Iterable
from typing import Final, Literal, get_args

VERSION: Final = "0.2.0"
"""Of the three packages, the chart and the images."""

PreparationRole = Literal["fetch", "index", "pack", "seal", "publish", "upload"]
MemberRole = Literal["scheduler", "server", "rendezvous", "worker"]
Role = PreparationRole | MemberRole
"""What a pod does in its job."""

ROLES: Final[tuple[Role, ...]] = (*get_args(PreparationRole), *get_args(MemberRole))

# Programs that another one starts, or that an image of one's own replaces.
TRAIN_PROGRAM: Final = "imagenet-train"
SLOTS_PROGRAM: Final = "imagenet-slots"
RENDEZVOUS_PROGRAM: Final = "imagenet-rendezvous"
TRACK_PROGRAM: Final = "imagenet-track"
DOOR_PROGRAM: Final = "imagenet-door"

DOOR_PORT: Final = 9093
"""Where imagenet-door listens, on 127.0.0.1 of its pod alone."""

CODECS: Final = ("opencv", "planes")
"""What converts images in preparation."""

CHECKSUM: Final = "(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})"
"""The pattern of a file's checksum."""

# Variables of every pod.
POD_NAME: Final = "POD_NAME"
POD_IP: Final = "POD_IP"
"""The address that servers bind."""
IMAGENET_JOB: Final = "IMAGENET_JOB"
IMAGENET_NAMESPACE: Final = "IMAGENET_NAMESPACE"
IMAGENET_JOB_UID: Final = "IMAGENET_JOB_UID"
IMAGENET_ROLE: Final = "IMAGENET_ROLE"
IMAGENET_METRICS_PORT: Final = "IMAGENET_METRICS_PORT"
IMAGENET_TERMINATION_LOG: Final = "IMAGENET_TERMINATION_LOG"
"""The file of the pod's termination message."""
IMAGENET_CPUS: Final = "IMAGENET_CPUS"
"""The cores of the pod's CPU limit, else of its request, rounded up."""
IMAGENET_PODS_ON_NODE: Final = "IMAGENET_PODS_ON_NODE"
"""The pods of its kind that run on the pod's node at the same time, if that is known."""

# Variables of mounted volumes.
IMAGENET_SOURCE: Final = "IMAGENET_SOURCE"
"""The source, read-only."""
IMAGENET_DATA: Final = "IMAGENET_DATA"
"""The dataset volume."""
IMAGENET_OUTPUT: Final = "IMAGENET_OUTPUT"
"""The output volume."""
IMAGENET_CACHE: Final = "IMAGENET_CACHE"
"""The volume for what a worker reads from a bucket or a server."""
IMAGENET_START_CREDENTIALS: Final = "IMAGENET_START_CREDENTIALS"
"""The folder of the files of the Secret for the results from which training starts."""
IMAGENET_SCRATCH: Final = "IMAGENET_SCRATCH"
"""Room for caches that is deleted with the pod."""
IMAGENET_CREDENTIALS: Final = "IMAGENET_CREDENTIALS"
"""The folder of the files of the source's Secret."""

# Variables of a member of an attempt.
IMAGENET_DATASET: Final = "IMAGENET_DATASET"
"""The worker's dataset, below IMAGENET_DATA; or its URL."""
IMAGENET_RESULTS: Final = "IMAGENET_RESULTS"
"""The folder of what all attempts write, below IMAGENET_OUTPUT."""
IMAGENET_ATTEMPT: Final = "IMAGENET_ATTEMPT"
"""The number of the attempt, from 0."""
IMAGENET_SPEC_HASH: Final = "IMAGENET_SPEC_HASH"
"""The SHA-256 of the fields that decide what is trained."""
IMAGENET_WORKER_PROGRAM: Final = "IMAGENET_WORKER_PROGRAM"
"""What the workers run, on a parameter server."""
IMAGENET_HOROVOD_HOSTS: Final = "IMAGENET_HOROVOD_HOSTS"
"""NAME:SLOTS,… of all workers, on Horovod's rendezvous."""
IMAGENET_TRACKING: Final = "IMAGENET_TRACKING"
"""The arguments of imagenet-track, a JSON list, on the worker beside which it runs."""
IMAGENET_TRACKING_CREDENTIALS: Final = "IMAGENET_TRACKING_CREDENTIALS"
"""The folder of the files of the Secret that imagenet-track reads."""

# Keys of that Secret: MLflow's own variables, and the authority's certificates.
MLFLOW_TRACKING_URI: Final = "MLFLOW_TRACKING_URI"
MLFLOW_TRACKING_TOKEN: Final = "MLFLOW_TRACKING_TOKEN"
MLFLOW_TRACKING_USERNAME: Final = "MLFLOW_TRACKING_USERNAME"
MLFLOW_TRACKING_PASSWORD: Final = "MLFLOW_TRACKING_PASSWORD"
TRACKING_CA: Final = "ca.crt"

FORMATS: Final = ("RecordIO", "TFRecord")
"""The formats of datasets."""

JOB_COMPLETION_INDEX: Final = "JOB_COMPLETION_INDEX"
"""Which completion of an Indexed Job a pod is; Kubernetes sets it."""

EXIT_USAGE: Final = 2
"""The arguments are wrong; argparse's own code."""
EXIT_PERMANENT: Final = 3
"""A retry would fail in the same way."""
EXIT_VOLUME_FULL: Final = 4
"""The output volume lacks room; a retry may find some."""

RESULT_FILE: Final = "result.json"
"""In the folder of an attempt that finished."""
EVENTS_FILE: Final = "metrics.jsonl"
"""In the folder of an attempt: its events, one a line."""
MODEL_LINK: Final = "model"
"""In the folder of a local job: a link to the folder of its newest model's attempt."""
PLOT_FILE: Final = "training.png"
"""In the folder of an attempt: the plot of the training."""
EVALUATION_FILE: Final = "evaluation.json"
"""Beside the model: what it says of each validation image."""
THUMBNAILS_FOLDER: Final = "thumbnails"
"""Beside the model: small JPEG files of the images that evaluation.json shows."""
LABELS_FILE: Final = "labels.json"
"""Beside the model: the names of the classes by label."""
MODEL_CARD_FILE: Final = "model-card.md"
MODEL_CARD_DATA_FILE: Final = "model-card.json"
"""Beside the model: what it is, for people and for programs."""
CHECKPOINTS_FOLDER: Final = "checkpoints"
"""In the folder of an attempt: a folder for each of its checkpoints."""
CHECKPOINT_FILE: Final = "manifest.json"
"""In a checkpoint, written last: its other files, with their lengths and SHA-256."""
TRAINING_FILE: Final = "training.json"
"""In a checkpoint: the batches of an epoch, and the validations so far."""
READABLE_LOG: Final = "train.log"
"""In the folder of an attempt: the log of rank 0."""

TEMPORARY: Final = r"\..+\.tmp-[0-9a-f]{16}"
"""Matches the name of what is being written, which a later run deletes."""

TENSORBOARD_FOLDER: Final = "tensorboard"
"""The event files of all attempts, below IMAGENET_RESULTS."""
ATTEMPTS_FOLDER: Final = "attempts"
"""Below IMAGENET_RESULTS."""
EVERY_ATTEMPT: Final = f"{ATTEMPTS_FOLDER}/r[0-9]*"
"""Matches the folder of every attempt, below IMAGENET_RESULTS."""

_PORT = "([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"

SERVER: Final = f"https?://[-A-Za-z0-9._]+(:{_PORT})?"
"""The beginning of a URL, as a pattern: scheme, host and port, without user."""

ENDPOINT: Final = f"^{SERVER}/?$"
"""The pattern of the address of a server, such as an S3 API: without user, path and query."""


def camel_case(name: str) -> str:
    """Return an attribute's name as JSON has it: `images_per_second` is imagesPerSecond."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


HINT: Final = 0.6
"""How alike names are by difflib, for a message that lists or names the others, too."""


def nearest(name: str, known: Iterable[str], likeness: float = 0.7) -> str | None:
    """Return the known name that an unknown one may mean, in any case, if one is so much alike.

    Where the guess decides, a field of a newer Kubernetes must not be taken for a misspelt one.
    """
    # For the message of an error alone: all programs import this module.
    from difflib import get_close_matches

    lowered = {item.lower(): item for item in known}
    found = get_close_matches(name.lower(), lowered, n=1, cutoff=likeness)
    return lowered[found[0]] if found else None


def attempt_folder(attempt: int) -> str:
    """Return the folder of an attempt, below IMAGENET_RESULTS."""
    return f"{ATTEMPTS_FOLDER}/r{attempt}"
