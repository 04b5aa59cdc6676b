"""What the operator and the programs of its pods both know, declared once.

`program` has the options of the programs, `frameworks` what each framework has and lacks, `metrics`
the metrics of the workloads, and `names` the variables of a pod, its exit codes and the files that
both read. Every program of a pod imports this package, so it needs the standard library alone.
"""
