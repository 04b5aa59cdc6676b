"""Distributed training: what `imagenet-train` does in the roles worker, server and scheduler.

`program` starts a role; `worker` is the story of one worker, told with `options` (the command
line), `networks` (what is trained), `data` (what it is trained on), `schedule` (how fast),
`strategies` (how workers exchange) and `result` (what remains). Nothing here imports MXNet when it
is imported itself unless its docstring says so: a parser must be cheap, and schedulers do without
(`kvstore_server`).
"""
