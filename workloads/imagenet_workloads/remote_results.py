"""The results of a job in a bucket: uploads them and fetches them, whole or to start from them.

    PREFIX/attempts/r1/{model files, labels.json, model-card.md, model-card.json, metrics.jsonl}
    PREFIX/attempts/r1/checkpoints/epoch-0090-batch-00000000/{manifest.json, …}
    PREFIX/attempts/r1/result.json

The names are those of the output volume, so whatever reads a job's folder reads a copy of the
bucket. manifest.json follows the other files of its checkpoint, and result.json all others. Each
object has the SHA-256 of its file as metadata. So an upload that was cut off continues with the
objects that are missing or differ, and a reader never takes half of a model or of a checkpoint for
a whole one. Pictures of the dataset (thumbnails) and evaluation.json, which names them, stay on the
volume.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from imagenet_spec import volume_files
from imagenet_spec.names import (
    ATTEMPTS_FOLDER,
    CHECKPOINT_FILE,
    CHECKPOINTS_FOLDER,
    EVENTS_FILE,
    EVERY_ATTEMPT,
    RESULT_FILE,
)
from imagenet_workloads import files
from imagenet_workloads.checkpoint import (
    CheckpointManifest,
    FileSum,
    read_sums,
    sums_of_model,
)
from imagenet_workloads.clients.folders import BucketFolder
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields

# A read from the volume, and thus a piece of an upload.
_READ_BYTES = 1 << 20
# Of a request.
_BLOCK = 8 << 20

# Of one job: the folder that an upload is given has those of many.
_CHECKPOINT = re.compile(
    r"((?:attempts/r([0-9]+)/)?checkpoints/epoch-([0-9]{4,})-batch-([0-9]{8,}))/manifest\.json"
)
_RESULT = re.compile(r"((?:attempts/r([0-9]+)/)?)result\.json")

_log = logging.getLogger(__name__)


class _DamagedError(InputError):
    """A file on the volume is not the one that the training has written."""


def upload(attempt: Path, target: BucketFolder) -> int:
    """Upload what is missing of a job's results; return the bytes that were uploaded.

    `attempt` is the folder attempts/rN with the result.json of the job; `target` is for the folder
    above attempts. InputError if it is another folder, there is no result, a file of the model is
    damaged, or the bucket refuses; WorkloadError if the bucket cannot be reached.
    """
    attempt = attempt.resolve()
    if not re.fullmatch(f"{ATTEMPTS_FOLDER}/r[0-9]+", "/".join(attempt.parts[-2:])):
        raise InputError(f"{attempt}: is not the folder attempts/rN of a job's results")
    results = attempt.parent.parent
    fields = Fields.read(attempt / RESULT_FILE)
    if not (model := fields.object("model").values):
        raise InputError(f"{attempt / RESULT_FILE}: has no model, which --test-io does not train")
    if fields.has("files"):
        sums = read_sums(fields.object("files"))
    else:
        # An earlier release wrote no sums.
        sums = sums_of_model(attempt, [fields.object("model").file_name(name) for name in model])
    result = _sum_of(attempt / RESULT_FILE)
    name = (attempt / RESULT_FILE).relative_to(results).as_posix()
    if target.bucket.sha256_of(target.key(name)) == result.sha256:
        _log.info("%s is already uploaded", target.where(name))
        return 0
    uploaded = 0
    for log in sorted(results.glob(f"{EVERY_ATTEMPT}/{EVENTS_FILE}")):
        uploaded += _upload(results, log, _sum_of(log), target)
    for checkpoint in sorted(results.glob(f"{EVERY_ATTEMPT}/{CHECKPOINTS_FOLDER}/epoch-*")):
        try:
            manifest = CheckpointManifest.read(checkpoint)
        except InputError as error:
            # The model does not need it.
            _log.warning("checkpoint %s is left out: damaged: %s", checkpoint, error)
            continue
        try:
            for file, expected in manifest.files.items():
                uploaded += _upload(results, checkpoint / file, expected, target)
        except _DamagedError as error:
            _log.warning("checkpoint %s is left out: damaged: %s", checkpoint, error)
            continue
        end = checkpoint / CHECKPOINT_FILE
        uploaded += _upload(results, end, _sum_of(end), target)
    for file, expected in sums.items():
        uploaded += _upload(results, attempt / file, expected, target)
    return uploaded + _upload(results, attempt / RESULT_FILE, result, target)


def _sum_of(path: Path) -> FileSum:
    try:
        return FileSum.of(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _upload(results: Path, path: Path, expected: FileSum, target: BucketFolder) -> int:
    """Upload a file unless it is there; return the bytes that were uploaded.

    _DamagedError if the file is not the expected one; nothing is left of it in the bucket.
    """
    key = target.key(path.relative_to(results).as_posix())
    if target.bucket.sha256_of(key) == expected.sha256:
        return 0

    def pieces() -> Iterator[bytes]:
        digest = hashlib.sha256()
        try:
            with volume_files.opened(path) as file:
                while piece := file.read(_READ_BYTES):
                    digest.update(piece)
                    yield piece
        except OSError as error:
            raise _DamagedError(f"{path}: cannot be read: {error.strerror}") from error
        # An error here leaves no object.
        if digest.hexdigest() != expected.sha256:
            raise _DamagedError(f"{path}: its checksum is wrong: the file is damaged")

    target.bucket.write(key, pieces(), expected.sha256)
    _log.info("%s is uploaded", target.bucket.where(key))
    return expected.bytes


def fetch(source: BucketFolder, into: Path, *, with_checkpoints: bool) -> None:
    """Fetch a job's uploaded results; whoever reads them compares the sums that they list.

    InputError if there are no results, or the bucket refuses; StorageError if the folder cannot be
    written; WorkloadError if the bucket cannot be reached.
    """
    sizes = {
        one.key.removeprefix(f"{source.prefix}/"): one.size
        for one in source.bucket.below(source.prefix)
    }
    if not any(_RESULT.fullmatch(name) for name in sizes):
        raise InputError(f"{source.where('')}: has no uploaded results of a job")
    for name, size in sizes.items():
        # The client of the bucket refuses keys with empty parts or "..".
        path = into / name
        if with_checkpoints or CHECKPOINTS_FOLDER not in path.parts:
            files.make_folder(path.parent)
            files.write_chunks(path, _blocks(source, name, size))


def fetch_checkpoint(
    source: BucketFolder, into: Path, worked: Callable[[], None] = lambda: None
) -> Path:
    """Fetch the newest checkpoint of uploaded results; return its folder.

    The source is the folder of a job, of an attempt or of a checkpoint. A checkpoint that is there
    is not fetched again. `worked` is called after each file. InputError if there is no complete
    checkpoint; other errors are those of `fetch`.
    """
    names = _names_in(source)
    if CHECKPOINT_FILE in names:
        newest = source.prefix
    else:
        found = [match for name in names if (match := _CHECKPOINT.fullmatch(name)) is not None]
        if not found:
            raise InputError(
                f"{source.where('')}: has no complete checkpoint; name the folder of a checkpoint, "
                "of an attempt or of a job"
            )
        # After success the last one is that of the end of an epoch.
        last = max(found, key=lambda match: (int(match[3]), int(match[4]), int(match[2] or 0)))
        newest = source.key(last[1])
    final = into / newest.rpartition("/")[2]
    if final.is_dir():
        return final
    folder = BucketFolder(source.bucket, newest)
    end = folder.read_whole(CHECKPOINT_FILE)
    listed = _parsed(end, folder.where(CHECKPOINT_FILE)).object("files")
    files.make_folder(into)
    with files.new_folder(final) as temporary:
        for name, expected in read_sums(listed).items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            _fetch(folder, name, expected, temporary / name)
            worked()
        files.write_file(temporary / CHECKPOINT_FILE, end)
    return final


def fetch_weights(source: BucketFolder, into: Path) -> Path:
    """Fetch the model's weights of uploaded results, or a file of weights; return the file.

    The source is the folder of a job or of an attempt, or the key of a file. A file that is there
    is not fetched again. InputError if there is no model of PyTorch; other errors are those of
    `fetch`.
    """
    results = sorted(
        (match for name in _names_in(source) if (match := _RESULT.fullmatch(name)) is not None),
        key=lambda match: int(match[2] or 0),
    )
    files.make_folder(into)
    if not results:
        name = source.prefix.rpartition("/")[2]
        if (into / name).is_file():
            return into / name
        above = BucketFolder(source.bucket, source.prefix.rpartition("/")[0])
        size = above.bucket.size_of(above.key(name))
        if size is None:
            raise InputError(
                f"{above.where(name)}: is neither a file of weights nor the uploaded results of a "
                "job"
            )
        files.write_chunks(into / name, _blocks(above, name, size))
        return into / name
    folder = BucketFolder(source.bucket, source.key(results[-1][1]))
    result = _parsed(folder.read_whole(RESULT_FILE), folder.where(RESULT_FILE))
    name, listed = result.object("model").file_name("params"), result.object("files")
    if (expected := read_sums(listed).get(name)) is None:
        raise listed.wrong(name, "is missing")
    if not (into / name).is_file():
        _fetch(folder, name, expected, into / name)
    return into / name


def _names_in(folder: BucketFolder) -> list[str]:
    return [one.key[len(folder.key("")) :] for one in folder.bucket.below(folder.prefix)]


def _parsed(content: bytes, where: str) -> Fields:
    return Fields.parse(content.decode(errors="replace"), where)


def _fetch(folder: BucketFolder, name: str, expected: FileSum, path: Path) -> None:
    """Fetch a file that is complete or absent; InputError if it is not the expected one."""

    def verified() -> Iterator[bytes]:
        digest = hashlib.sha256()
        for block in _blocks(folder, name, expected.bytes):
            digest.update(block)
            yield block
        if digest.hexdigest() != expected.sha256:
            raise InputError(f"{folder.where(name)}: its checksum is wrong: the file is damaged")

    files.write_chunks(path, verified())


def _blocks(folder: BucketFolder, name: str, size: int) -> Iterator[bytes]:
    for begin in range(0, size, _BLOCK):
        yield folder.read(name, begin, min(_BLOCK, size - begin))
