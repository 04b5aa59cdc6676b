"""Whether index can use a dataset that is already sealed."""

from pathlib import Path

from imagenet_workloads import dataset as datasets
from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.prepare import limits
from imagenet_workloads.prepare.plan import Plan


def exists(dataset: Path) -> bool:
    """Whether a folder has a sealed dataset."""
    return files.exists(dataset / datasets.FILE_NAME)


def check(dataset: Path, plan: Plan, max_skipped_fraction: float) -> datasets.Dataset:
    """Check that a sealed dataset is valid for this run too, and return it.

    Raises:
        InputError: Its files are missing, or more images are damaged than this run allows.
    """
    sealed = datasets.read_dataset(dataset)
    for shard in (*sealed.train.shards, *sealed.validation.shards):
        lacking = _lacking(dataset, shard)
        if lacking is not None:
            raise InputError(
                f"{dataset / lacking}: is not as {datasets.FILE_NAME} says; "
                f"remove {datasets.FILE_NAME} there, and run again to make what is missing"
            )
    allowed = limits.allowed(max_skipped_fraction, plan.images())
    if sealed.skipped.count > allowed:
        raise InputError(
            f"{dataset}: {sealed.skipped.count} of {plan.images()} images were damaged "
            f"(see {sealed.skipped.report}), and {allowed} are allowed; raise "
            "--max-skipped-fraction (maxSkippedFraction)"
        )
    return sealed


def _lacking(dataset: Path, shard: datasets.Shard) -> str | None:
    """Return a file of a shard that is missing or has another length, if there is one."""
    record = dataset / shard.record
    if not record.exists() or record.stat().st_size != shard.bytes:
        return shard.record
    if shard.index is not None and not (dataset / shard.index).exists():
        return shard.index
    return None
