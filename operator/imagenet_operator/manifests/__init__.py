"""Builders: pure functions from a job to the manifests of its children.

Builders use no client, clock or logger. `decide` creates the objects that are missing, and
`imagenetctl render` prints them. In order: `volumes` (claims), `dataset` (the index, pack and seal
Jobs), `attempt` (an attempt's Service and pods, by the `strategies`).
"""
