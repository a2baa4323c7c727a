// Package manifests tests docs/kubernetes: as a test of this module, since nobody imports it, who would then have
// Kubernetes' types in his module graph.
package manifests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// kinds are the types of what our manifests may create.
var kinds = map[string]func() any{
	"apps/v1 Deployment":                  func() any { return new(appsv1.Deployment) },
	"policy/v1 PodDisruptionBudget":       func() any { return new(policyv1.PodDisruptionBudget) },
	"monitoring.coreos.com/v1 PodMonitor": func() any { return new(monitoringv1.PodMonitor) },
}

// decode decodes the documents of a file strictly, each by the API's type, and returns their kinds.
func decode(file []byte) (decoded []string, err error) {
	for doc := range bytes.SplitSeq(file, []byte("\n---\n")) {
		var of struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(doc, &of); err != nil {
			return decoded, err
		}
		kind := of.APIVersion + " " + of.Kind
		object, known := kinds[kind]
		if !known {
			return append(decoded, "unknown: "+kind), nil
		}
		if err := yaml.UnmarshalStrict(doc, object()); err != nil {
			return decoded, err
		}
		decoded = append(decoded, of.Kind)
	}
	return decoded, nil
}

// The manifests have no field that Kubernetes would refuse, or ignore, and no value of another type.
func TestManifestsAreWhatKubernetesTakes(t *testing.T) {
	for name, want := range map[string][]string{
		"reports/reports.yaml":       {"Deployment", "PodDisruptionBudget"},
		"podmonitor/podmonitor.yaml": {"PodMonitor"},
	} {
		file, err := os.ReadFile(filepath.Join("../../../docs/kubernetes", name))
		servertest.Must(t, err)
		if got, err := decode(file); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// kubectl apply -k takes each folder: that of the PodMonitor with all that the base has.
func TestOverlaysBuildReal(t *testing.T) {
	build := []string{"kubectl", "kustomize"}
	if _, err := exec.LookPath("kubectl"); err != nil {
		tool, err := exec.CommandContext(t.Context(), "../../../.ci/tool", "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1").Output()
		servertest.Must(t, err)
		build = []string{strings.TrimSpace(string(tool)), "build"}
	}
	want := map[string]string{"reports": "[Deployment PodDisruptionBudget]", "podmonitor": "[Deployment PodDisruptionBudget PodMonitor]"}
	found, _ := filepath.Glob("../../../docs/kubernetes/*/kustomization.yaml")
	if len(found) != len(want) {
		t.Errorf("there are %v", found)
	}
	for _, file := range found {
		dir := filepath.Dir(file)
		out, failed := exec.CommandContext(t.Context(), build[0], build[1], dir).CombinedOutput()
		got, err := decode(out)
		if slices.Sort(got); failed != nil || err != nil || fmt.Sprint(got) != want[filepath.Base(dir)] {
			t.Errorf("%s: %v, %v, %v\n%s", dir, got, failed, err, out)
		}
	}
}
