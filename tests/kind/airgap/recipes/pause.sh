#!/usr/bin/env bash
# The program that holds a pod's namespaces, into $OUT.
set -euo pipefail

CGO_ENABLED=0 go build -trimpath -gcflags all=-dwarf=false -ldflags '-s -w' -o "$OUT/pause" \
  "$AIRGAP/pause.go"
