"""ImageNetJob's control side.

In the order of a job's way: the manifests that a resource (`imagenet_spec.resource`) turns into
(`manifests`), the decisions (`reconcile`), where they take effect (`clusters`), and the command
line (`cli`).
"""
