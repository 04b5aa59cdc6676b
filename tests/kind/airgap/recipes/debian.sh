#!/usr/bin/env bash
# A minimal Debian as a Docker image named $IMAGE: what all other images here start from.
set -euo pipefail

if ! command -v debootstrap >/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap
fi
debootstrap --variant=minbase --include=ca-certificates "$DEBIAN_RELEASE" root
rm -rf root/var/cache/apt/archives/*.deb root/var/lib/apt/lists/*
tar -C root -c . | docker import --change "LABEL $LABEL" --change 'CMD ["bash"]' - "$IMAGE"
