"""The programs of the pods, one module each.

Each has `build_parser()`, which imports neither MXNet nor OpenCV, and `main(arguments)`, which
returns the exit code: 0 success, 1 a failure that a retry may fix, 2 invalid arguments, 3 a
permanent failure, 4 the output volume is full (imagenet-train), 143 ended by SIGTERM.
`process.program` has their common part.
"""
