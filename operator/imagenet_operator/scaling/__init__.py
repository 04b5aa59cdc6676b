"""Sweeps over workers, strategies and networks: the pure functions of `imagenetctl scale`.

`variants` reads --strategies, `networks` reads --networks, and `points` makes and validates one job
for each point. `point_status` finds the points that are done, `speedup` computes speedup and
efficiency, and `table` writes text, CSV and Markdown. `cli.scale` runs the points.
"""
