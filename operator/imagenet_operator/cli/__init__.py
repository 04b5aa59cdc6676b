"""The commands of `imagenetctl`, one module each; those that start a program share `programs`.

A command module has `add_parser(subparsers)`, which sets `run`, and `run(arguments)`, which returns
the exit code. `main` registers them.
"""
