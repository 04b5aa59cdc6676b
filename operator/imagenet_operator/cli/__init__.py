"""The commands of `imagenetctl`, one module each, and the generator of committed files.

A command module has `add_parser(subparsers)`, which sets `run`, and `run(arguments)`, which returns
the exit code. `main` registers them.
"""
