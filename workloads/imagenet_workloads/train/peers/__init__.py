"""Whom a worker waits for before its framework may start: one way of meeting a module.

Each has `find`, which says by the environment who this process is among the others, or how the
environment and the strategy do not fit. `strategies.names` says which one a --kv-store needs. No
framework is imported, so a wait is heard of and can be ended.
"""
