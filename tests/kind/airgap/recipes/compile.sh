#!/usr/bin/env bash
# Programs of the module in $MODULES, into $OUT; $PROGRAMS names each and its package: NAME=PACKAGE…
set -euo pipefail

cp -r "$MODULES/." .
for program in $PROGRAMS; do
  CGO_ENABLED=0 go build -trimpath -gcflags all=-dwarf=false -ldflags '-s -w' \
    -o "$OUT/${program%%=*}" "${program#*=}"
done
