#!/usr/bin/env bash
# The programs of Kubernetes, $PACKAGES of the module in $MODULES, into $OUT.
set -euo pipefail

cp -r "$MODULES/." .
# The version is linked in, as the release's own build does: kubeadm and the API server compare it.
version="$KUBERNETES_VERSION"
IFS=. read -r major minor _ <<<"${version#v}"
flags=(-s -w)
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  flags+=(
    -X "$package.gitVersion=$version" -X "$package.gitMajor=$major" -X "$package.gitMinor=$minor"
    -X "$package.gitTreeState=clean" -X "$package.gitCommit=unknown"
  )
done
# In one go: what programs share is looked up once, and some link while others still compile.
read -ra packages <<<"$PACKAGES"
CGO_ENABLED=0 go build -trimpath -gcflags all=-dwarf=false -ldflags "${flags[*]}" -o "$OUT/" \
  "${packages[@]}"
