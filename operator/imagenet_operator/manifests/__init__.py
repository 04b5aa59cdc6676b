"""From the resource to the manifests of its children: pure builders.

It stands between `api` and `reconcile`: a job goes in, Kubernetes-shaped documents come out, with
no client, clock or logger. `decide` compares them with what exists and creates what is missing;
`imagenetctl render` prints them. In the order of a job's way: `volumes` (claims), `dataset` (the
index, pack and seal Jobs), `attempt` (one attempt's Service and pods, by the `strategies`).
"""
