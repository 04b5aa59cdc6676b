#!/usr/bin/env bash
# etcd and etcdctl from their Go modules, into $OUT.
#
# `go install` refuses them, because their go.mod replaces sibling modules with folders of their
# repository; a module of our own takes the released siblings.
set -euo pipefail

mkdir module && cd module
go mod init imagenetjob.test/etcd
cat >tools.go <<'GO'
//go:build tools

package tools

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/server/v3"
)
GO
go mod edit -require="go.etcd.io/etcd/server/v3@$ETCD_VERSION" \
  -require="go.etcd.io/etcd/etcdctl/v3@$ETCD_VERSION"
go mod tidy
export CGO_ENABLED=0
flags=(-trimpath -gcflags all=-dwarf=false -ldflags '-s -w')
go build "${flags[@]}" -o "$OUT/etcd" go.etcd.io/etcd/server/v3
go build "${flags[@]}" -o "$OUT/etcdctl" go.etcd.io/etcd/etcdctl/v3
