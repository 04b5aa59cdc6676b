"""What every program of the pods does as a process: signals, children, exit code, last message.

The bottom of the package: it imports `errors` and nothing above. `program` runs a program's body,
`missing_library` names what is not installed, `pid1` is the process that a pod starts,
`termination` handles SIGTERM in a worker, and `parent_death_signal` ends a process with its parent.
"""
