"""A Kubernetes cluster: watch caches, a work queue, and one reconcile a job at a time.

`reflector` lists and watches the children into a cache of `objects`, and `handlers` watches the
jobs. Every change enqueues a job. `loop` takes it from its queue, and `reconciler` reconciles what
`cluster` observes. All requests go through `client`. Beside the loop run `sampler`, `recorder`
(Kubernetes Events), `health` and `metrics`.
"""
