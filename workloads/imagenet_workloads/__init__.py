"""What runs inside an ImageNetJob's pods.

In the order of a job's way: preprocessing (`prepare`), training (`train`, `checkpoint`), what both
report (`telemetry`), and the programs that a pod starts (`commands`).
"""
