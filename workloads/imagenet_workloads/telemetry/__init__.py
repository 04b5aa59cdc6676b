"""What the pods report: Prometheus metrics while they run, and a log of events beside the model.

`names` lists every metric, `registry` and `server` export them, `preparation` and `training` are
what the programs call, `events` and `log` write metrics.jsonl. Nothing here imports MXNet: a
parameter server's metrics must be up before it does, since that import never returns there.
"""
