"""What the operator and the programs of its pods both know, declared once.

`metrics` has the metrics of the workloads and the figures that the operator makes of them. Every
program of a pod imports this package, so it needs the standard library alone.
"""
