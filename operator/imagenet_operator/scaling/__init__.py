"""Sweeps over numbers of workers and strategies: the pure functions of `imagenetctl scale`.

`variants` is what --strategies can say, `points` makes one job of each point and asks whether it
could run, `point_status` tells which of them are done already, `speedup` computes speedup and
efficiency, and `table` writes text, CSV and Markdown. What acts on it is `cli.scale`.
"""
