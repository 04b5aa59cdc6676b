#!/usr/bin/env bash
# CoreDNS with the plugins that coredns.go names, into $OUT.
set -euo pipefail

mkdir module && cd module
go mod init imagenetjob.test/coredns
go mod edit -require="github.com/coredns/coredns@$COREDNS_VERSION"
cp "$AIRGAP/coredns.go" main.go
# Not `go mod tidy`, which would download what the plugins' tests import.
CGO_ENABLED=0 go build -mod=mod -trimpath -gcflags all=-dwarf=false -ldflags '-s -w' \
  -o "$OUT/coredns" .
