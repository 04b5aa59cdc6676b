"""The programs that a pod starts, one a module.

Each has `build_parser()`, which imports neither MXNet nor OpenCV, and `main(arguments)`, which
returns the exit code: 0 success, 1 a failure that another try may mend, 2 wrong arguments, 3 a
failure that it will not, 143 ended by SIGTERM. `program.py` holds what they share.
"""
