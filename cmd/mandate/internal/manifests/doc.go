// Package manifests checks the Kubernetes manifests in docs against the types of the Kubernetes API
// and of the Prometheus operator. It has its own module because of the size of these types. It
// holds only tests.
package manifests
