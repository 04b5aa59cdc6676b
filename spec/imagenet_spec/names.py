"""The names that the operator and the programs of its pods share.

The operator sets the variables of a pod and acts on its exit code; the programs read the variables
and end with the code. Both find a dataset and what a job has trained by the names of files.
"""

from typing import Final, Literal, get_args

PreparationRole = Literal["fetch", "index", "pack", "seal", "publish"]
MemberRole = Literal["scheduler", "server", "rendezvous", "worker"]
Role = PreparationRole | MemberRole
"""What a pod does in its job."""

ROLES: Final[tuple[Role, ...]] = (*get_args(PreparationRole), *get_args(MemberRole))

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


ATTEMPTS_FOLDER: Final = "attempts"
"""Below IMAGENET_RESULTS."""
EVERY_ATTEMPT: Final = f"{ATTEMPTS_FOLDER}/r[0-9]*"
"""Matches the folder of every attempt, below IMAGENET_RESULTS."""

ENDPOINT: Final = "^https?://[-A-Za-z0-9._]+(:[0-9]+)?/?$"
"""The pattern of the address of a server, such as an S3 API: without user, path and query."""


def camel_case(name: str) -> str:
    """Return an attribute's name as JSON has it: `images_per_second` is imagesPerSecond."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def attempt_folder(attempt: int) -> str:
    """Return the folder of an attempt, below IMAGENET_RESULTS."""
    return f"{ATTEMPTS_FOLDER}/r{attempt}"
