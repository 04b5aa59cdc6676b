"""The description of MXNet: its strategies, options that exclude each other, and other members.

Imports no MXNet.
"""

import os
from collections.abc import Mapping

from imagenet_spec.frameworks.mxnet import COMPRESSING, MXNET
from imagenet_spec.program.option import flag
from imagenet_spec.program.train import Options
from imagenet_workloads.data import reader
from imagenet_workloads.dataset import FILE_NAME, read_dataset
from imagenet_workloads.frameworks.mxnet.fast_import import lighten_mxnet
from imagenet_workloads.frameworks.mxnet.record_files import require_records
from imagenet_workloads.rendezvous.dmlc import DmlcMember, DmlcRole
from imagenet_workloads.train.description import (
    FrameworkDescription,
    StrategyModules,
)

STRATEGIES = {
    "local": StrategyModules("single", "none"),
    "device": StrategyModules("single", "none"),
    "nccl": StrategyModules("single", "none"),
    "dist_sync": StrategyModules("synchronous", "dmlc"),
    "dist_device_sync": StrategyModules("synchronous", "dmlc"),
    "dist_async": StrategyModules("asynchronous", "dmlc"),
    "horovod": StrategyModules("horovod", "horovod"),
}


def contradiction(options: Options) -> str | None:
    """Return an error for options that MXNet cannot combine; None if there are none."""
    cluster = options.cluster
    if problem := _grey(options) or _aspect_ratio(options) or reader.contradiction(options):
        return problem
    if cluster.kv_store == "nccl" and not cluster.gpus:
        return "argument --kv-store: nccl adds up over GPUs; write --gpus, or --kv-store device"
    if cluster.deterministic and (problem := _nondeterministic(options)):
        return f"argument --deterministic: {problem}, or leave --deterministic out"
    if cluster.gc_type != "none" and cluster.kv_store not in COMPRESSING:
        return (
            f"argument --gc-type: --kv-store {cluster.kv_store} cannot compress; write "
            "device or a dist one"
        )
    return None


def _nondeterministic(options: Options) -> str | None:
    """Return what does not give the same bits each time, and what to write instead."""
    if options.cluster.kv_store == "dist_async":
        return "dist_async applies gradients as they arrive; write --kv-store dist_sync"
    if options.cluster.gc_type != "none":
        return "--gc-type keeps rounding errors that no checkpoint holds; write --gc-type none"
    if not reader.is_ordered(options):
        return "ImageRecordIter resumes with other images; write --reader Ordered"
    return None


def _grey(options: Options) -> str | None:
    channels, height, width = options.model.image_shape
    lacking = MXNET.lacks_grey_augmentations
    changed = [flag(name) for name in lacking if getattr(options.augmentation, name)]
    if channels == 1 and changed:
        return (
            f"argument {', '.join(changed)}: MXNet changes no colours of images of 1 channel; "
            f"leave it out, or write --image-shape 3,{height},{width}"
        )
    return None


def _aspect_ratio(options: Options) -> str | None:
    """Check the largest change of the aspect ratio: 1 - change is the smallest ratio."""
    varied = options.augmentation
    largest = varied.max_random_aspect_ratio
    if varied.random_resized_crop and varied.min_random_aspect_ratio is None and largest >= 1:
        return (
            f"argument --max-random-aspect-ratio: {largest:g} without --min-random-aspect-ratio is "
            f"a change, to ratios from 1 - {largest:g}, which is not above 0: write "
            "--min-random-aspect-ratio too, or a change below 1"
        )
    return None


def serve(options: Options, variables: Mapping[str, str]) -> int | None:
    """Run the scheduler or server that DMLC_ROLE names; return None in a worker.

    Raises:
        WorkloadError: a variable is wrong, or MXNet cannot serve.
    """
    member = DmlcMember.from_mapping(variables)
    if member is None:
        return None
    os.environ.update(member.variables())
    if member.role is DmlcRole.WORKER:
        return None
    from imagenet_workloads.frameworks.mxnet import server_process

    return server_process.run(member, options.cluster, variables)


def explain_abort(options: Options) -> None:
    """Search the dataset for a damaged record, at which MXNet aborts the process.

    Raises:
        InputError: a shard of the dataset is damaged; the message names it.
    """
    folder = options.data.dataset
    if folder is not None and (folder / FILE_NAME).exists():
        require_records(read_dataset(folder), folder)


DESCRIPTION = FrameworkDescription(
    has=MXNET,
    library="mxnet",
    package=__package__,
    option="kv_store",
    strategies=STRATEGIES,
    contradiction=contradiction,
    before_import=lighten_mxnet,
    serve=serve,
    explain_abort=explain_abort,
    exports=("safetensors", "onnx"),
)
