"""A Kubernetes cluster: synced caches, one work queue, one pass a job at a time.

The flow, and the file of each step: `reflector` lists and watches the children into `cache`s, and
`handlers` (beside this package) the jobs; every change is a wish in `queue`; `loop` takes a key and
has `reconciler` make a pass over what `cluster` observes; `client` is the only way to the API
server. Beside the loop: `sampler`, `recorder` (Kubernetes Events), `health` and `metrics`.
"""
