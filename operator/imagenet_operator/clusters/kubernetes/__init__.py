"""A Kubernetes cluster: watch caches, a work queue, and one reconcile a job at a time.

`reflector` lists and watches the children into a `cache`, and `handlers` watches the jobs. Every
change enqueues a job. `loop` takes it from the queue, and `reconciler` reconciles what `cluster`
observes. All requests go through `client`. Beside the loop run `sampler`, `recorder` (Kubernetes
Events), `health` and `metrics`.
"""
