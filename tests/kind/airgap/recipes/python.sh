#!/usr/bin/env bash
# The stand-in for Docker's official Python image, as a Docker image named $IMAGE.
#
# What this machine needs to reach its package indexes goes in, so that a Dockerfile that installs
# packages works here as it stands: the certificate authorities and pip's own configuration.
set -euo pipefail

mkdir context
cp "$AIRGAP/python/Dockerfile" context/
cp "$PIP_CONFIGURATION" context/pip.conf
cp "$CERTIFICATES" context/ca-certificates.crt
DOCKER_BUILDKIT=0 docker build --network host --label "$LABEL" --build-arg "BASE=$DEBIAN_IMAGE" \
  --tag "$IMAGE" context
