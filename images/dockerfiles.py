"""Writes the Dockerfile of each image, from one template: images/NAME/Dockerfile.

    .venv/bin/python images/dockerfiles.py            # make generate
    .venv/bin/python images/dockerfiles.py --check    # make verify

images/Dockerfile.template is a Dockerfile with fields, as {name}; other braces are doubled. Lines
that only some images have are between `#if mxnet and not gpu`, `#else` and `#endif`, which can be
nested. A condition names what an image has, by the table here; a new image is one row of it. A
command loses its last backslash if no line continues it.
"""

import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from imagenet_operator.generate.files import write_or_check

IMAGES = Path(__file__).parent
TEMPLATE = IMAGES / "Dockerfile.template"
_CONTINUES_NOTHING = re.compile(r"^([^#].*) \\\n(?! )", re.MULTILINE)


@dataclass(frozen=True)
class Image:
    """What one image has of its own.

    Attributes:
        about: What runs in it, and what it needs.
        description: The same in a few words, for a registry.
        framework: What it trains with; empty for none. Horovod is compiled against it.
        has: What else the template's conditions name: horovod, gpu, r, a second framework.
        command: The program that runs by itself.
    """

    about: str
    description: str
    framework: str = ""
    has: tuple[str, ...] = ()
    command: str = "imagenet-train"


TABLE = {
    "operator": Image(
        "The operator, and imagenetctl beside it. No MXNet: what trains is in the other images.",
        "Runs ImageNetJobs on Kubernetes",
        command="imagenet-operator",
    ),
    "workloads-preparation": Image(
        "What prepares the dataset of an ImageNetJob, for every framework. It has none of them.",
        "Preprocessing, without a framework",
        command="imagenet-index",
    ),
    "workloads-mxnet": Image(
        "What runs in an ImageNetJob's pods without a GPU: preprocessing, schedulers, servers, "
        "Horovod's rendezvous, and workers that train on CPUs, by a parameter server or Horovod.",
        "Preprocessing and MXNet training on CPUs",
        framework="mxnet",
        has=("horovod",),
    ),
    "workloads-mxnet-cu112": Image(
        "What runs in the workers of an ImageNetJob that ask for GPUs (docs/images.md says for "
        "which ones). Nothing else runs in it: this MXNet cannot be imported where there is no "
        "GPU driver. UNVERIFIED: it was never run where there is a GPU, nor built with Horovod "
        "over NCCL.",
        "MXNet training on GPUs of compute capability 5.0 to 8.9, with Horovod",
        framework="mxnet",
        has=("gpu", "horovod"),
    ),
    "workloads-tensorflow": Image(
        "What runs in the pods of an ImageNetJob of TensorFlow without a GPU: preprocessing, "
        "workers by MirroredStrategy, MultiWorkerMirroredStrategy and Horovod, and Horovod's "
        "rendezvous.",
        "TensorFlow training on CPUs, with Horovod",
        framework="tensorflow",
        has=("horovod",),
    ),
    "workloads-tensorflow-gpu": Image(
        "What runs in the workers of an ImageNetJob of TensorFlow that ask for GPUs "
        "(docs/images.md says for which ones). UNVERIFIED: it was never run where there is a GPU, "
        "nor built with Horovod over NCCL. It needs about 4 GB of packages from PyPI for CUDA "
        "12.2 and cuDNN 8.9, and on the node NVIDIA's driver 525.60 or newer. Horovod's processes "
        "reduce over NCCL.",
        "TensorFlow training on GPUs, with Horovod",
        framework="tensorflow",
        has=("gpu", "horovod"),
    ),
    "workloads-pytorch": Image(
        "What runs in the pods of an ImageNetJob of PyTorch, with and without GPUs: preprocessing, "
        "and workers by DistributedDataParallel. PyPI has PyTorch only with CUDA; without a GPU "
        "and its driver it computes on the CPU. UNVERIFIED: it was built, but never run where "
        "there is a GPU. It needs about 5.5 GB of packages from PyPI for CUDA 13.2 and cuDNN 9.26, "
        "and on a node with GPUs NVIDIA's driver 580 or newer.",
        "PyTorch training on CPUs and GPUs",
        framework="pytorch",
        has=("gpu",),
    ),
    "workloads-r": Image(
        "What runs in the workers of an ImageNetJob that trains from R, without a GPU (docs/r.md): "
        "R, reticulate, and both TensorFlow and MXNet, which agree on NumPy. It has no Horovod.",
        "Training from R with TensorFlow or MXNet on CPUs",
        framework="tensorflow",
        has=("mxnet", "r"),
        command="Rscript",
    ),
}


def render(name: str, image: Image, template: str) -> str:
    """Return an image's Dockerfile."""
    distribution = name.partition("-")[0]
    has = {distribution, image.framework, *image.has}
    lines: list[str] = []
    holds: list[bool] = []
    for line in template.splitlines(keepends=True):
        directive, _, condition = line.strip().partition(" ")
        if directive == "#if":
            terms = condition.split(" and ")
            holds.append(
                all((term.removeprefix("not ") in has) != term.startswith("not ") for term in terms)
            )
        elif directive == "#else":
            holds[-1] = not holds[-1]
        elif directive == "#endif":
            holds.pop()
        elif all(holds):
            lines.append(line)
    text = _CONTINUES_NOTHING.sub(r"\1\n", "".join(lines))
    about = textwrap.fill(image.about, 100, initial_indent="# ", subsequent_indent="# ")
    return text.format_map(
        vars(image) | {"name": name, "distribution": distribution, "about": about}
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the Dockerfiles, or with --check compare them; return the exit code."""
    template = TEMPLATE.read_text()
    contents = {
        IMAGES / name / "Dockerfile": render(name, image, template) for name, image in TABLE.items()
    }
    return write_or_check(contents, "its template", __doc__ or "", arguments)


if __name__ == "__main__":
    sys.exit(main())
