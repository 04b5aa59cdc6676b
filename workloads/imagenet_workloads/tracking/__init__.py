"""Sends the events of a job to TensorBoard and MLflow, in a process beside rank 0.

`follow` reads the logs of all attempts, `history` decides what counts and what may be sent, and
`tensorboard` and `mlflow` send it. `commands.track` runs them in a loop, which `process.pid1`
starts and ends. Training knows none of this: all that it does is to write its event log.
"""
