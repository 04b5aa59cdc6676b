"""The process side of the pods' programs: signals, children, exit codes, termination messages.

The lowest layer: it imports only `errors`. `program` runs a program's body. `pid1` is the first
process of a pod. `termination` handles SIGTERM in a worker. `parent_death_signal` ends a process
with its parent.
"""
