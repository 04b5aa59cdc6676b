"""What runs inside an ImageNetJob's pods.

In the order of a job's way: `prepare` makes a dataset of `records`, `data` brings each of them from
its shard to a step, and `train` trains with one of the `frameworks`. `files` writes what stays,
`checkpoint` what a training resumes from, and `telemetry` what both report. `commands` are the
programs that a pod starts.
"""
