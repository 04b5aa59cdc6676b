"""The local cluster does what every cluster must do."""

from support.cluster_conformance import Conformance


class TestLocalCluster(Conformance):
    """Driven by the fixture of this folder."""
