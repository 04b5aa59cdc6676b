"""What the operator and the programs of its pods both know, declared once.

`names` has the variables of a pod, its exit codes and the files that both read; `metrics` has the
metrics of the workloads. Every program of a pod imports this package, so it needs the standard
library alone.
"""
