"""The longest name of a job, derived from the names of its children.

The builders (`manifests.names`) create the names of the children. The limit is here, because the
CRD contains it.
"""

from __future__ import annotations

LABEL_MAXIMUM = 63
"""The longest DNS-1035 label (RFC 1035, section 2.3.4): pod host names, Services, labels."""

DNS_LABEL = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""A DNS-1035 label: a Service's name may not start with a digit."""

ATTEMPT_DIGITS = 8
"""The largest number of an attempt: one a second for three years."""

REPLICAS_MAXIMUM = 10_000
"""The most members of a role, so that an index has up to four digits."""

_LAST_ATTEMPT = 10**ATTEMPT_DIGITS - 1
_SUFFIXES = (
    "-dataset",
    "-output",
    "-preparation",
    "-index",
    "-seal",
    # A pod of an Indexed Job is named by its completion index and five random characters.
    f"-pack-{10**5 - 1}-abcde",
    f"-r{_LAST_ATTEMPT}",
    f"-r{_LAST_ATTEMPT}-scheduler-0",
    f"-r{_LAST_ATTEMPT}-rendezvous-0",
    f"-r{_LAST_ATTEMPT}-server-{REPLICAS_MAXIMUM - 1}",
    f"-r{_LAST_ATTEMPT}-worker-{REPLICAS_MAXIMUM - 1}",
)

JOB_NAME_MAXIMUM = LABEL_MAXIMUM - max(map(len, _SUFFIXES))
"""The longest name of a job whose longest child's name is still a label."""
