"""Turns a failed import of a library into an error that says what to install.

`program` passes every error that is not a `WorkloadError` to `explain`. Another attempt would fail
in the same way, so the new error is permanent and causes no restart.
"""

import re
import sys
from importlib.util import find_spec

from imagenet_workloads.errors import InputError, WorkloadError

# The Debian package of each system library that a wheel needs.
DEBIAN_PACKAGES = {
    "libgomp.so.1": "libgomp1",
    "libquadmath.so.0": "libquadmath0",
    "libturbojpeg.so.0": "libturbojpeg0",
}
# Libraries that a GPU node mounts into its containers: another node may have them.
_FROM_THE_NODE = ("libcuda.", "libnvidia-")
# The dynamic loader's message, in an ImportError or, from ctypes, in an OSError.
_NOT_FOUND = re.compile(r"(\S+\.so\S*): cannot open shared object file")
_OWN_PACKAGE = __package__.partition(".")[0]
# How to install a framework, where its name alone does not say it. MXNet's metadata forbid NumPy 2,
# on which imagenet_workloads.mxnet_compatibility runs it.
_HOW = {
    "horovod": "it is compiled, for Python 3.11: make install-horovod or make install-tensorflow",
    "mxnet": "type: pip install 'graphviz<0.9' requests && pip install --no-deps mxnet==1.9.1",
    "tensorflow": "TensorFlow 2.15 needs Python 3.11: pip install tensorflow-cpu==2.15.1",
}


def explain(error: Exception) -> WorkloadError | None:
    """Return the error to report instead of a failed import.

    Args:
        error: Any exception.

    Returns:
        None if the exception has another cause, or if a module of this package is missing.
    """
    if isinstance(error, OSError | ImportError) and (found := _NOT_FOUND.search(str(error))):
        library = found[1]
        if library.startswith(_FROM_THE_NODE):
            return WorkloadError(f"{library} is missing: this node has no GPU driver")
        package = DEBIAN_PACKAGES.get(library)
        command = f"type: apt-get install {package}" if package else "install its package"
        return InputError(f"{library} is missing; {command}")
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        is_a_part = error.name != package and package != _OWN_PACKAGE
        if is_a_part and find_spec(package) is not None:
            return InputError(
                f"the Python package {package} in {sys.prefix} has no {error.name}; install a "
                "version that this project names in its requirements"
            )
        if package != _OWN_PACKAGE:
            how = f"; {_HOW[package]}" if package in _HOW else ""
            return InputError(f"the Python package {package} is not installed in {sys.prefix}{how}")
    return None
