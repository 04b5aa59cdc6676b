"""What a training starts from: files of the output volume, or the uploaded results of a job.

Uploaded results are fetched into the folder for temporary files, which in a pod is its scratch
volume. The processes of one pod share them: the first one fetches, and the others wait.
"""

import fcntl
import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from imagenet_spec.names import IMAGENET_START_CREDENTIALS
from imagenet_spec.program.train import Options
from imagenet_workloads import files
from imagenet_workloads.clients.credentials import Credentials
from imagenet_workloads.clients.folders import BucketFolder, open_bucket_folder
from imagenet_workloads.remote_results import fetch_checkpoint, fetch_weights


def checkpoint(options: Options, worked: Callable[[], None] = lambda: None) -> Path | None:
    """Fetch the checkpoint of --init-from-url and return its folder; None without.

    InputError: the bucket has none, or refuses. WorkloadError: the bucket cannot be reached, or the
    checkpoint not be stored.
    """
    url = options.output.init_from_url
    if url is None:
        return None
    with _fetching(url) as into:
        return fetch_checkpoint(_opened(url, options), into, worked)


def weights(options: Options) -> Path | None:
    """Return the file of weights to start from; None without --pretrained(-url).

    Errors are those of `checkpoint`.
    """
    url = options.model.pretrained_url
    if url is None:
        return options.model.pretrained
    with _fetching(url) as into:
        return fetch_weights(_opened(url, options), into)


def _opened(url: str, options: Options) -> BucketFolder:
    keys = Credentials(variable=IMAGENET_START_CREDENTIALS)
    return open_bucket_folder(url, options.output.start_endpoint, options.output.start_region, keys)


@contextmanager
def _fetching(url: str) -> Iterator[Path]:
    name = f"imagenet-start-{hashlib.sha256(url.encode()).hexdigest()[:16]}"
    into = Path(tempfile.gettempdir()) / name
    files.make_folder(into)
    # Beside the folder: a file of weights may have any name.
    with into.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield into
