"""What holds for every test of `train`: this process refuses to import a framework.

The parent folder's conftest.py has this folder collected only in a process that runs nothing else.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

REFUSED = (
    "imagenet_workloads.frameworks",
    "horovod",
    "jax",
    "keras",
    "mxnet",
    "tensorflow",
    "torch",
)


class _Refusal(MetaPathFinder):
    """Finds a framework's modules first, and refuses them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if any(fullname == name or fullname.startswith(f"{name}.") for name in REFUSED):
            raise AssertionError(f"the tests of train may not import {fullname}")
        return None


# The conftest.py of all tests has imported descriptions, which import no framework.
for _name in [name for name in sys.modules if name.startswith(REFUSED[0])]:
    del sys.modules[_name]
_imported = [name for name in REFUSED if name in sys.modules]
if _imported:
    raise RuntimeError(f"this process has imported {', '.join(_imported)} before these tests")
sys.meta_path.insert(0, _Refusal())
