"""Takes a third off the time of `import mxnet`, which every worker of every attempt waits for.

MXNet imports these packages if it finds them, for parts that training does not use (an interface
to scikit-learn, sparse matrices of SciPy), and does without where they are not installed, as in a
workload's image. `program` hides them in the process that trains; nothing else runs there.
"""

import sys

UNUSED = ("scipy", "sklearn")


def hide_unused_packages() -> None:
    """Let MXNet find none of the packages; those that are imported already stay."""
    for name in UNUSED:
        # What `import` does with None is documented: ModuleNotFoundError.
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
