"""What a manifest of `imagenetctl init` says about this machine, for `imagenetctl run`.

Annotations name the folder of the images and the file of the weights, relative to the manifest. A
cluster ignores both: there, claims have them.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from imagenet_operator.cli.local_resources import LocalResources
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.manifests import volumes
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.job import LOCAL_PATH, LOCAL_WEIGHTS


def apply(job: ImageNetJob, file: str, resources: LocalResources) -> LocalResources:
    """Return the resources with the folder of the images, and copy the weights to their volume.

    An option --volume of the source's claim precedes the annotation.

    Raises:
        LocalError: A folder or file does not exist, or the weights cannot be copied.
    """
    beside = Path() if file == "-" else Path(file).resolve().parent
    annotations, claim = job.metadata.annotations, job.spec.dataset.source.fields.claim
    given = annotations.get(LOCAL_PATH)
    if given and claim is not None and claim not in resources.volumes.mapped:
        folder = (beside / given).resolve()
        if not folder.is_dir():
            raise LocalError(
                f"metadata.annotations[{LOCAL_PATH}]: {folder} is not a folder; correct it, or "
                f"name the folder with --volume {claim}=PATH"
            )
        resources = replace(resources, volumes=resources.volumes.with_folder(claim, folder))
    weights, wanted = annotations.get(LOCAL_WEIGHTS), job.spec.training.model.pretrained
    output = volumes.output_claim(job)
    if weights and wanted is not None and output is not None:
        _copy((beside / weights).resolve(), resources.volumes.path(output) / wanted)
    return resources


def _copy(source: Path, target: Path) -> None:
    partial = target.with_name(f"{target.name}.part")
    try:
        given = source.stat()
        if target.exists():
            copied = target.stat()
            if (copied.st_size, copied.st_mtime_ns) == (given.st_size, given.st_mtime_ns):
                return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, partial)
        partial.replace(target)
    except OSError as error:
        raise LocalError(
            f"metadata.annotations[{LOCAL_WEIGHTS}]: cannot copy {source} to {target}: "
            f"{error.strerror}"
        ) from error
