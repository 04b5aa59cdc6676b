#!/usr/bin/env bash
# Kueue's manager and its chart, from its Go module at $KUEUE_VERSION, into $OUT.
set -euo pipefail

module="sigs.k8s.io/kueue@$KUEUE_VERSION"
go mod download "$module"
# What the module cache holds can only be read.
cp --recursive --no-preserve=mode "$(go env GOMODCACHE)/$module" source
cp --recursive source/charts/kueue "$OUT/chart"
cd source
CGO_ENABLED=0 go build -trimpath -gcflags all=-dwarf=false -ldflags '-s -w' \
  -o "$OUT/manager" ./cmd/kueue
