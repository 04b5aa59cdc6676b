#!/usr/bin/env bash
# A minimal Debian as a Docker image named $IMAGE: what all other images here start from.
set -euo pipefail

if ! command -v debootstrap >/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap
fi
debootstrap --variant=minbase --include=ca-certificates "$DEBIAN_RELEASE" root
rm -rf root/var/cache/apt/* root/var/lib/apt/lists/*
# The source of packages has the form and the file that Docker's official image has.
read -r _ address suite components <root/etc/apt/sources.list
cat >root/etc/apt/sources.list.d/debian.sources <<END
Types: deb
URIs: $address
Suites: $suite
Components: $components
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
rm root/etc/apt/sources.list
# As in Docker's official images, apt keeps neither packages nor its own caches: those are 80 MB in
# every layer that installs something, which each node would have to take.
cat >root/etc/apt/apt.conf.d/docker-clean <<'END'
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin"; };
APT::Update::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin"; };
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
END
tar -C root -c . | docker import --change "LABEL $LABEL" --change 'CMD ["bash"]' - "$IMAGE"
