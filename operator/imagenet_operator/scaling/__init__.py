"""Sweeps over workers, strategies and networks: the pure functions of `imagenetctl scale`.

`variants` reads --strategies and --networks. `points` makes and validates one job for each point,
and `point_status` finds the points that are done. `table` computes speedup and efficiency, and
writes text, CSV and Markdown. `cli.scale` runs the points.
"""
