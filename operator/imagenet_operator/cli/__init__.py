"""The commands of `imagenetctl`, one module each; those that start a program share `programs`.

A command module has `add_parser(command)`, which declares it, and `run(arguments)`, which returns
the exit code. `main` has the names of the commands, with the function that declares each.
"""
