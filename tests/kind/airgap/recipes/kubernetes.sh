#!/usr/bin/env bash
# The programs of Kubernetes from its Go module, into $OUT.
#
# `go install` refuses k8s.io/kubernetes, because its go.mod replaces the staging modules with
# folders of its repository. A module of our own replaces each with the release that was cut from
# that folder: v0.Y.Z for Kubernetes v1.Y.Z.
set -euo pipefail

programs=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubeadm kubectl)
version="$KUBERNETES_VERSION"
mkdir module && cd module

go mod init imagenetjob.test/kubernetes
go mod edit -require="k8s.io/kubernetes@$version"
go_mod="$(go mod download -json "k8s.io/kubernetes@$version" |
  awk -F '"' '$2 == "GoMod" {print $4}')"
for staging in $(awk '$2 == "=>" && $3 ~ /^\.\/staging/ {print $1}' "$go_mod"); do
  go mod edit -replace="$staging=$staging@v0.${version#v1.}"
done
{
  echo '//go:build tools'
  echo 'package tools'
  printf 'import _ "k8s.io/kubernetes/cmd/%s"\n' "${programs[@]}"
} >tools.go
go mod tidy

# The version is linked in, as the release's own build does: kubeadm and the API server compare it.
IFS=. read -r major minor _ <<<"${version#v}"
flags=(-s -w)
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  flags+=(
    -X "$package.gitVersion=$version" -X "$package.gitMajor=$major" -X "$package.gitMinor=$minor"
    -X "$package.gitTreeState=clean" -X "$package.gitCommit=unknown"
  )
done
# In one go: what programs share is looked up once, and some link while others still compile.
CGO_ENABLED=0 go build -trimpath -gcflags all=-dwarf=false -ldflags "${flags[*]}" -o "$OUT/" \
  "${programs[@]/#/k8s.io/kubernetes/cmd/}"
