#!/usr/bin/env bash
# The Prometheus Operator's definitions of PodMonitor and PrometheusRule, from its Go module at
# $PROMETHEUS_OPERATOR_VERSION, into $OUT.
set -euo pipefail

module="github.com/prometheus-operator/prometheus-operator@$PROMETHEUS_OPERATOR_VERSION"
go mod download "$module"
for kind in podmonitors prometheusrules; do
  install -m 644 -t "$OUT" \
    "$(go env GOMODCACHE)/$module/example/prometheus-operator-crd/monitoring.coreos.com_$kind.yaml"
done
