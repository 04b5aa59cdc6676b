"""Telemetry of the pods: Prometheus metrics, and a log of events beside the model.

`server` exports the metrics of `imagenet_spec`, programs call `preparation` and
`training`, and `event_log` writes metrics.jsonl. Nothing here imports MXNet: a parameter
server must export metrics before it imports MXNet, which never returns there.
"""
