#!/usr/bin/env bash
# A controller of others and its chart, from its Go module, into $OUT: the package $CONTROLLER_MAIN
# and the folder $CONTROLLER_CHART of $CONTROLLER_MODULE at $CONTROLLER_VERSION.
set -euo pipefail

module="$CONTROLLER_MODULE@$CONTROLLER_VERSION"
go mod download "$module"
# What the module cache holds can only be read.
cp --recursive --no-preserve=mode "$(go env GOMODCACHE)/$module" source
cp --recursive "source/$CONTROLLER_CHART" "$OUT/chart"
cd source
CGO_ENABLED=0 go build -trimpath -gcflags all=-dwarf=false -ldflags '-s -w' \
  -o "$OUT/manager" "$CONTROLLER_MAIN"
