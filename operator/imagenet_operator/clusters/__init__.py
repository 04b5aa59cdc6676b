"""Clusters: they apply decisions, on Kubernetes or on this machine."""
