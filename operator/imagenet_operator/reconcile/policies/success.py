"""Success: every worker of one attempt exited with 0, as the status records it.

Because the record counts and not the pods, a worker that finished and vanishes later undoes
nothing; and because only workers count, neither does a helper that ends badly after the last of
them.
"""

from __future__ import annotations

from collections.abc import Sequence

from imagenet_operator.api.status import MemberStatus


def achieved(members: Sequence[MemberStatus]) -> bool:
    """Return whether every worker among the recorded members succeeded."""
    workers = [member for member in members if member.role == "worker"]
    return bool(workers) and all(worker.phase == "Succeeded" for worker in workers)
