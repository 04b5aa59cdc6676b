"""Where decisions become objects: the interface of a cluster, and this machine as one of them."""
