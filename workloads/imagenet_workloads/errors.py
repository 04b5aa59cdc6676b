"""The errors that end a workload's program, each with the exit code that the pod's Job acts on.

Anything in this package that cannot go on raises one of these with a message for a person: which
file, variable or option, what was wrong with it, and what to write instead. `process.program`
turns it into one line on stderr, the pod's termination message and an exit code.
"""


class WorkloadError(Exception):
    """A failure with a message for a person; the next try may succeed."""

    exit_code = 1


class InputError(WorkloadError):
    """What was given to read or to obey is wrong; another try would give the same."""

    exit_code = 3


class StorageError(WorkloadError):
    """The place to write to is wrong: read-only, too small, not ours; a retry gives the same."""

    exit_code = 3


class SupersededError(WorkloadError):
    """A later attempt of the same job exists, so this one may not write any more."""

    exit_code = 3
