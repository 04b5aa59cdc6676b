"""Telemetry of the pods: Prometheus metrics, and a log of events beside the model.

`registry` and `server` export the metrics of `imagenet_spec`, programs call `preparation` and
`training`, and `events` and `log` write metrics.jsonl. Nothing here imports MXNet: a parameter
server must export metrics before it imports MXNet, which never returns there.
"""
