# The image of the volume provisioner, and of the pods in which it makes and removes folders.
ARG BASE
FROM ${BASE}
COPY local-path-provisioner /usr/local/bin/
