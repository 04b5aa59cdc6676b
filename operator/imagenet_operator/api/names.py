"""The length that a job's name may have, derived from the names of its children.

The builders (`manifests.names`) make those children; here is only the arithmetic, because the
CRD has to state it before any child exists.
"""

from __future__ import annotations

LABEL_MAXIMUM = 63
"""Characters in a DNS-1035 label (RFC 1035, section 2.3.4): pod hostnames, Services, labels."""

DNS_LABEL = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""A DNS-1035 label: a Service's name may not start with a digit."""

ATTEMPT_DIGITS = 8
"""Room for an attempt's number: one a second for three years."""

REPLICAS_MAXIMUM = 10_000
"""Most members of one role, so that an index has four digits at most."""

_LAST_ATTEMPT = 10**ATTEMPT_DIGITS - 1
_SUFFIXES = (
    "-dataset",
    "-output",
    "-preparation",
    "-index",
    "-seal",
    # A pod of an Indexed Job is called after its completion index and five random characters.
    f"-pack-{10**5 - 1}-abcde",
    f"-r{_LAST_ATTEMPT}",
    f"-r{_LAST_ATTEMPT}-scheduler-0",
    f"-r{_LAST_ATTEMPT}-rendezvous-0",
    f"-r{_LAST_ATTEMPT}-server-{REPLICAS_MAXIMUM - 1}",
    f"-r{_LAST_ATTEMPT}-worker-{REPLICAS_MAXIMUM - 1}",
)

JOB_NAME_MAXIMUM = LABEL_MAXIMUM - max(map(len, _SUFFIXES))
"""Characters that a job's name may have, so that its longest child's is still a label."""
