"""The descriptor of a framework, and its parts: what it has and lacks.

The resource, its rules, the builders, local runs and the command line use a descriptor, never a
framework's name. So a framework is one module with one `Framework`, one entry in the registry, and
a folder of the workloads (`imagenet-train --framework NAME`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, get_args

from imagenet_spec.program.option import Option
from imagenet_spec.program.train import OPTIONS, PRECISIONS, READERS, OptimizerName
from imagenet_spec.strategies import STRATEGIES


class Family(NamedTuple):
    """The networks that one value of `model.network` names.

    Attributes:
        depths: The values of `numLayers`; empty for a network of one depth.
        smallest: The smallest side of an image for the network, in pixels.
        has_fixed_input: Whether it is built for one size of images, in the frameworks that train on
            several sizes.
        millions: Of weights with 1,000 classes, rounded up, by depth; empty if that depends on the
            size of images.
    """

    depths: tuple[int, ...] = ()
    smallest: int = 1
    has_fixed_input: bool = False
    millions: tuple[int, ...] = ()


class Images(NamedTuple):
    """The container images of one framework.

    Attributes:
        cpu: Runs preparation, schedulers, servers, rendezvous and workers without GPUs.
        gpu: Runs workers with GPUs. It may need a GPU driver at import, so nothing else runs in it.
    """

    cpu: str
    gpu: str


class GPUCode(NamedTuple):
    """The GPU code in the build of a framework that its GPU image has.

    Attributes:
        machine_code: Compute capabilities, as (major, minor), with machine code. It also runs on
            GPUs of the same major and a greater minor number.
        ptx: The compute capability of the PTX, which the driver translates for this and any later
            GPU; None without PTX.
    """

    machine_code: tuple[tuple[int, int], ...] = ()
    ptx: tuple[int, int] | None = None

    @property
    def newest(self) -> tuple[int, int]:
        return max((*self.machine_code, *((self.ptx,) if self.ptx else ())), default=(0, 0))

    def runs_on(self, capability: tuple[int, int]) -> bool:
        major, minor = capability
        return any(own == major and least <= minor for own, least in self.machine_code) or (
            self.ptx is not None and capability >= self.ptx
        )

    def __str__(self) -> str:
        """Return the compute capabilities in words, as ``5.0 to 8.x``."""
        oldest = min((*self.machine_code, *((self.ptx,) if self.ptx else ())), default=None)
        if oldest is None:
            return "none"
        newest = "and newer" if self.ptx else f"to {max(self.machine_code)[0]}.x"
        return f"{oldest[0]}.{oldest[1]} {newest}"


class LocalEnvironment(NamedTuple):
    """A Python environment beside imagenetctl's own, for local runs.

    Attributes:
        suffix: Its folder is the folder of imagenetctl's environment plus this suffix.
        holds: What it is for, as error messages name it.
        target: The Makefile's target that creates it.
    """

    suffix: str
    holds: str
    target: str


class StrategySupport(NamedTuple):
    """How a framework trains with one strategy.

    Attributes:
        options: The values of options of `imagenet-train` for the strategy, by name. A strategy's
            builder adds those that follow from its fields, such as `kv_store: dist_sync`.
        one_gpu_a_process: Whether a process of this framework uses one GPU at most. The strategy
            `horovod` then rejects slots with several GPUs.
        environment: The environment of a local run, if it is not the framework's.
    """

    options: Mapping[str, str] = MappingProxyType({})
    one_gpu_a_process: bool = False
    environment: LocalEnvironment | None = None


_BY_NAME: Mapping[str, Option] = {item.name: item for item in OPTIONS}


class Framework(NamedTuple):
    """The descriptor of one framework.

    A job or a command line with something that the framework lacks is rejected, because the program
    would ignore it and train something else.

    Attributes:
        name: The value of `spec.training.framework`.
        formats: The dataset formats that it reads, the default first.
        networks: `model.network` → the networks of that name. A name that several frameworks have
            means the same `Family` in each.
        network_prefix: Begins the names of further networks, of one depth, which only the
            framework's program knows; None if there are none.
        strategies: A strategy's name in a manifest → how the framework trains with it.
        module: The Python module that has it; empty if every environment has it.
        without_dependencies: A requirement that pip installs alone, because its metadata forbid
            what it runs on here; empty for none.
        needs_python: The one version of Python that it runs on; empty if it runs on all.
        count_gpus: A Python expression, with the module, for the number of GPUs that it sees.
        environment: The environment of a local run; None for imagenetctl's own.
        lacks: Options of `imagenet-train`, by name: any value but the program's default is refused.
            The resource refuses augmentations, fields that are absent unless a job gives them, and
            extraArgs; another field needs a rule of the operator's.
        lacks_values: Values of options.
        lacks_grey_augmentations: Augmentations that it has only for images of 3 channels.
        normalizes_on_gpu: Whether the reader gives a GPU bytes, and not numbers of 4 bytes.
        memory_variable: An environment variable, as NAME=VALUE, with which it needs less memory.
        memory_option: A switch of `imagenet-train`, by name, with which it needs less memory.
    """

    name: str
    formats: tuple[str, ...]
    networks: Mapping[str, Family]
    strategies: Mapping[str, StrategySupport]
    images: Images
    module: str = ""
    without_dependencies: str = ""
    needs_python: str = ""
    count_gpus: str = ""
    gpu_code: GPUCode = GPUCode()
    network_prefix: str | None = None
    environment: LocalEnvironment | None = None
    lacks: tuple[str, ...] = ()
    lacks_values: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    lacks_grey_augmentations: tuple[str, ...] = ()
    normalizes_on_gpu: bool = False
    memory_variable: str | None = None
    memory_option: str | None = None

    @property
    def readers(self) -> tuple[str, ...]:
        return tuple(name for name in READERS if name not in self._lacking("reader", READERS))

    @property
    def lacks_optimizers(self) -> tuple[str, ...]:
        """Values of `optimizer.name` that it lacks."""
        return self._lacking("optimizer", get_args(OptimizerName))

    @property
    def lacks_precisions(self) -> tuple[str, ...]:
        """Values of `precision` that it lacks."""
        return self._lacking("dtype", PRECISIONS)

    @property
    def lacks_augmentations(self) -> tuple[str, ...]:
        """Fields of `spec.training.augmentation` that it lacks, by their Python names."""
        below = "training.augmentation."
        return tuple(name for name in self.lacks if _BY_NAME[name].field.startswith(below))

    @property
    def lacks_fields(self) -> tuple[Option, ...]:
        """Options that it lacks whose fields are absent unless a job gives them."""
        return tuple(_BY_NAME[name] for name in self.lacks if _BY_NAME[name].is_optional)

    @property
    def lacks_options(self) -> tuple[Option, ...]:
        """Options that it lacks and no field sets."""
        return tuple(_BY_NAME[name] for name in self.lacks if not _BY_NAME[name].field)

    def _lacking(self, name: str, known: Sequence[str]) -> tuple[str, ...]:
        if name in self.lacks:
            return tuple(value for value in known if value != _BY_NAME[name].default)
        return self.lacks_values.get(name, ())

    def has_network(self, name: str) -> bool:
        prefix = self.network_prefix
        return name in self.networks or (prefix is not None and name.startswith(prefix))

    def strategies_by(self, option: str) -> dict[str, str]:
        """Return the strategies by the value of an option of `imagenet-train` that chooses one."""
        return {
            value: name
            for name, support in self.strategies.items()
            for value in (
                [support.options[option]] if support.options else STRATEGIES[name].kv_stores
            )
        }

    def local_environment(self, strategy: str) -> LocalEnvironment | None:
        """Return the environment of a local run; None for imagenetctl's own."""
        return self.strategies[strategy].environment or self.environment


_RESNET = (18, 34, 50, 101, 152)
_RESNET_MILLIONS = (12, 22, 26, 45, 61)
_VGG = (11, 13, 16, 19)
_VGG_MILLIONS = (133, 134, 139, 144)

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "lenet": Family(smallest=16, has_fixed_input=True),
        "mlp": Family(has_fixed_input=True),
        "alexnet": Family(smallest=64, millions=(62,)),
        "resnet": Family(_RESNET, millions=_RESNET_MILLIONS),
        "resnet-v1": Family(_RESNET, millions=_RESNET_MILLIONS),
        "vgg": Family(_VGG, smallest=32, millions=_VGG_MILLIONS),
        "vgg-bn": Family(_VGG, smallest=32, millions=_VGG_MILLIONS),
        "inception-v3": Family(smallest=299, millions=(24,)),
        "densenet": Family((121, 161, 169, 201), smallest=224, millions=(8, 29, 15, 21)),
        "squeezenet": Family(smallest=224, millions=(2,)),
        "mobilenet": Family(millions=(5,)),
        "mobilenet-v2": Family(millions=(4,)),
    }
)
"""The networks of MXNet's programs, for descriptors. A framework may add others."""


def families(*names: str) -> dict[str, Family]:
    """Return some of `FAMILIES`, for `Framework.networks`."""
    return {name: FAMILIES[name] for name in names}


LACKS_OF_MXNET: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "optimizer": ("lbsgd",),
        "warmup_strategy": ("lars",),
        "reader": ("ImageRecordIter",),
    }
)
"""The values that MXNet alone has."""
