#!/usr/bin/env bash
# One program by `go install`: $PROGRAM_PACKAGE at $PROGRAM_VERSION into $OUT.
set -euo pipefail

CGO_ENABLED=0 GOBIN="$OUT" go install -trimpath -gcflags all=-dwarf=false -ldflags '-s -w' \
  "$PROGRAM_PACKAGE@$PROGRAM_VERSION"
