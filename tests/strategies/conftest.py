"""Lets tests import the benchmarks, which are no package that is installed."""

import sys

from support.pod_subset import REPOSITORY

sys.path.append(str(REPOSITORY))
