#!/usr/bin/env bash
# The Go module that a cluster's programs are compiled in, into $OUT.
#
# By themselves they would take other versions of what they share, Kubernetes's own libraries first
# of all, and compile each of them again.
#
# Kubernetes could not be compiled by itself anyway: its go.mod replaces the staging modules with
# folders of its repository. Here each is replaced with the release that was cut from that folder:
# v0.Y.Z for Kubernetes v1.Y.Z.
set -euo pipefail

cd "$OUT"
go mod init imagenetjob.test/cluster
go mod edit \
  -require="k8s.io/kubernetes@$KUBERNETES_VERSION" \
  -require="go.etcd.io/etcd/server/v3@$ETCD_VERSION" \
  -require="go.etcd.io/etcd/etcdctl/v3@$ETCD_VERSION" \
  -require="github.com/coredns/coredns@$COREDNS_VERSION" \
  -require="github.com/rancher/local-path-provisioner@$LOCAL_PATH_PROVISIONER_VERSION" \
  -require="helm.sh/helm/v3@$HELM_VERSION"
go_mod="$(go mod download -json "k8s.io/kubernetes@$KUBERNETES_VERSION" |
  awk -F '"' '$2 == "GoMod" {print $4}')"
for staging in $(awk '$2 == "=>" && $3 ~ /^\.\/staging/ {print $1}' "$go_mod"); do
  go mod edit -replace="$staging=$staging@v0.${KUBERNETES_VERSION#v1.}"
done
mkdir coredns
cp "$AIRGAP/coredns.go" coredns/main.go

# Which other modules that takes, and their sums. Not `go mod tidy`, which would download what tests
# import. In spite of errors (-e), of which there is one: two packages spell the name of a third in
# two ways, which is none unless they become one program.
read -ra packages <<<"$PACKAGES"
go list -mod=mod -e -deps "${packages[@]}" >/dev/null
