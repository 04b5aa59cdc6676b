"""docs/waiting.md lists every reason by which a job waits, and no other."""

from __future__ import annotations

import re

from imagenet_operator.reconcile.explanation import WAITING_REASONS
from imagenet_operator.reconcile.policies import waiting
from imagenet_operator.reconcile.types import INITIALIZING
from support.pod_subset import REPOSITORY

PAGE = (REPOSITORY / "docs" / "waiting.md").read_text()


def test_every_reason_is_listed() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    listed = {reason for row in rows for reason in re.findall(r"`(\w+)`", row)}
    assert listed == WAITING_REASONS | {INITIALIZING}
    assert waiting.START_DEADLINE_EXCEEDED in PAGE
