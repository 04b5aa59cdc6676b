"""Cuts this machine's CPU into two devices, for every Python that has this folder on PYTHONPATH.

MirroredStrategy trains a copy of the network on each device of its worker, and adds gradients up
between them. Without GPUs a worker has one device, and there is nothing to add up. Python imports
this file before any program; it takes effect, and says so, when a program imports TensorFlow.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

DEVICES = 2
SAID = f"two_devices: TensorFlow has {DEVICES} devices"


class Finder:
    """Finds TensorFlow as Python would, and cuts the CPU once it is imported."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Implements `importlib.abc.MetaPathFinder`."""
        found = PathFinder.find_spec(name, path) if name == "tensorflow" else None
        if found is not None and found.loader is not None:
            load = found.loader.exec_module

            def load_and_cut(module: ModuleType) -> None:
                load(module)
                cut(module)

            found.loader.exec_module = load_and_cut  # type: ignore[method-assign]
        return found


def cut(tensorflow: ModuleType) -> None:
    """Make the devices; before TensorFlow has used any."""
    configuration = tensorflow.config
    (whole,) = configuration.list_physical_devices("CPU")
    parts = [configuration.LogicalDeviceConfiguration() for _ in range(DEVICES)]
    configuration.set_logical_device_configuration(whole, parts)
    print(SAID, file=sys.stderr, flush=True)


sys.meta_path.insert(0, Finder)
