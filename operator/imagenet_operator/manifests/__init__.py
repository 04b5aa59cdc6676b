"""Builders: pure functions from a job to the manifests of its children.

`decide` creates the objects that are missing, and `imagenetctl render` prints them. In order:
`volumes` (claims), `dataset` (Jobs), `attempt` (a Service and pods, by the `strategies`).
"""
