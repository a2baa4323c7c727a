// Package manifests checks the Kubernetes manifests in docs against the types of the API and
// of the Prometheus operator, which are a module of their own for their size. It holds tests
// only.
package manifests
