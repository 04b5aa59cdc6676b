"""ImageNetJob's control side.

In the order of a job's way: the resource (`api`), the manifests it turns into (`manifests`), the
decisions (`reconcile`), where they take effect (`clusters`), and the command line (`cli`).
"""
