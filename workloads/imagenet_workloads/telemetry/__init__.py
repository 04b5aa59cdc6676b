"""Telemetry of the pods: Prometheus metrics, and a log of events beside the model.

`names` lists every metric, `registry` and `server` export them, programs call `preparation` and
`training`, and `events` and `log` write metrics.jsonl. Nothing here imports MXNet: a parameter
server must export metrics before it imports MXNet, which never returns there.
"""
