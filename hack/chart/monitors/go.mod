// The definitions of the Prometheus operator, for hack/chart/test: files of the module, nothing is built of it.
module muster.dev/hack/chart/monitors

go 1.24.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
