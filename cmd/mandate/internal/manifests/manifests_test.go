package manifests

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	pdb "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	restrict "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	strict "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const docs = "../../../../docs/kubernetes"

func manifests(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(docs, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	var all []string
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b))
	}
	return strings.Join(all, "\n---\n")
}

func TestManifests(t *testing.T) {
	for _, problem := range problems(manifests(t)) {
		t.Error(problem)
	}
}

// Each of these mistakes is a problem.
func TestMistakesInManifestsAreFound(t *testing.T) {
	text := manifests(t)
	for _, change := range [][2]string{
		{"maxUnavailable: 1", "maxUnavailble: 1"},
		{"maxUnavailable: 1", "maxUnavailable: 0"},
		{"readOnlyRootFilesystem: true", "readOnlyRootFileSystem: true"},
		{"readOnlyRootFilesystem: true", "readOnlyRootFilesystem: sure"},
		{"replicas: 3", "replicas: 1"},
		{"kind: PodMonitor", "kind: PodMonitors"},
		{"podMetricsEndpoints:", "podMetricEndpoints:"},
		{"interval: 15s", "intervall: 15s"},
		{"drop: [ALL]", "drop: [NET_RAW]"},
		{"runAsNonRoot: true", "runAsNonRoot: false"},
		{"allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"},
		{"type: RuntimeDefault", "type: Unconfined"},
		{"path: /ready, port: mandate", "path: /ready, port: mandat"},
		{"path: /live", "path: /leader"},
		{"port: mandate, path: /metrics", "port: metrics, path: /metrics"},
		{"containerPort: 7480", "containerPort: 7481"},
		{"labels: {app: reports}", "labels: {app: report}"},
		{"cpu: 100m", "cpu: 100 m"},
		{"terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 16"},
		{"whenUnsatisfiable: ScheduleAnyway", "whenUnsatisfiable: Anyway"},
		{"ports:\n", "lifecycle: {preStop: {sleep: {seconds: 5}}}\n          ports:\n"},
	} {
		if changed := strings.Replace(text, change[0], change[1], 1); changed == text {
			t.Errorf("%q does not stand there", change[0])
		} else if len(problems(changed)) == 0 {
			t.Errorf("%q as %q is no problem", change[0], change[1])
		}
	}
}

// problems is what is wrong with manifests of one deployment.
func problems(text string) (all []string) {
	objects := struct {
		deployment apps.Deployment
		budget     pdb.PodDisruptionBudget
		monitor    monitoring.PodMonitor
	}{}
	kinds := map[string]any{
		"apps/v1 Deployment":                  &objects.deployment,
		"policy/v1 PodDisruptionBudget":       &objects.budget,
		"monitoring.coreos.com/v1 PodMonitor": &objects.monitor,
	}
	missing := maps.Clone(kinds)
	for _, doc := range strings.Split(text, "\n---\n") {
		var is meta.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &is); err != nil {
			return append(all, err.Error())
		}
		kind := is.APIVersion + " " + is.Kind
		delete(missing, kind)
		if kinds[kind] == nil {
			all = append(all, "no test knows "+kind)
		} else if err := decode(doc, kinds[kind]); err != nil {
			all = append(all, fmt.Sprintf("%s: %v", kind, err))
		}
	}
	if len(missing) > 0 || len(all) > 0 {
		return append(all, fmt.Sprintf("missing: %v", slices.Sorted(maps.Keys(missing))))
	}
	for what, p := range map[string][]string{
		"Deployment":          deployed(&objects.deployment),
		"PodDisruptionBudget": protected(&objects.budget, &objects.deployment),
		"PodMonitor":          scraped(&objects.monitor, &objects.deployment.Spec.Template),
	} {
		for _, problem := range p {
			all = append(all, what+": "+problem)
		}
	}
	return all
}

// decode is as strict as the API server with --validate=strict: a field of another case is none.
func decode(doc string, into any) error {
	b, err := yaml.YAMLToJSONStrict([]byte(doc))
	if err != nil {
		return err
	}
	unknown, err := strict.UnmarshalStrict(b, into)
	return errors.Join(append(unknown, err)...)
}

func deployed(d *apps.Deployment) (all []string) {
	pod := &d.Spec.Template
	if !selects(d.Spec.Selector, pod) {
		all = append(all, "its selector misses its own pods")
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if !selects(c.LabelSelector, pod) {
			all = append(all, "pods are spread by another label")
		}
		if c.WhenUnsatisfiable != core.ScheduleAnyway && c.WhenUnsatisfiable != core.DoNotSchedule {
			all = append(all, "whenUnsatisfiable: "+string(c.WhenUnsatisfiable))
		}
	}
	if token := pod.Spec.AutomountServiceAccountToken; token == nil || *token {
		all = append(all, "it gets a token of the API server, and needs none")
	}
	// A fifth of the lease, 10 s, for the command; a release is repeated for one and a half.
	if wait := pod.Spec.TerminationGracePeriodSeconds; wait == nil || *wait <= 2+15 {
		all = append(all, "killed before a release can be repeated")
	}
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return append(all, err.Error())
	}
	level := restrict.LevelVersion{Level: restrict.LevelRestricted, Version: restrict.LatestVersion()}
	for _, result := range checks.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			all = append(all, "not restricted: "+result.ForbiddenReason+": "+result.ForbiddenDetail)
		}
	}
	if len(pod.Spec.Containers) != 1 {
		return append(all, "not one container")
	}
	return append(all, contained(&pod.Spec.Containers[0])...)
}

func contained(c *core.Container) (all []string) {
	port := portOf(c, "mandate")
	if !slices.Contains(c.Command, fmt.Sprintf("--http=[::]:%d", port)) {
		all = append(all, fmt.Sprintf("mandate does not listen on port %d of all addresses", port))
	}
	if c.Lifecycle != nil {
		all = append(all, "a hook delays the handover")
	}
	for path, probe := range map[string]*core.Probe{"/ready": c.ReadinessProbe, "/live": c.LivenessProbe} {
		switch {
		case probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path:
			all = append(all, "no probe queries "+path)
		case probe.HTTPGet.Port != intstr.FromString("mandate"):
			all = append(all, path+" is queried on another port")
		}
	}
	return all
}

func protected(b *pdb.PodDisruptionBudget, d *apps.Deployment) (all []string) {
	if !selects(b.Spec.Selector, &d.Spec.Template) {
		all = append(all, "it selects other pods")
	}
	replicas, away := d.Spec.Replicas, b.Spec.MaxUnavailable
	if replicas == nil || away == nil || away.IntValue() < 1 || int(*replicas)-away.IntValue() < 2 {
		all = append(all, "a drain hangs, or leaves no successor")
	}
	return all
}

func scraped(m *monitoring.PodMonitor, pod *core.PodTemplateSpec) (all []string) {
	if !selects(&m.Spec.Selector, pod) {
		all = append(all, "it selects other pods")
	}
	if len(m.Spec.PodMetricsEndpoints) != 1 {
		return append(all, "not one endpoint")
	}
	e := m.Spec.PodMetricsEndpoints[0]
	if e.Port == nil || len(pod.Spec.Containers) != 1 || portOf(&pod.Spec.Containers[0], *e.Port) == 0 || e.Path != "/metrics" || e.Interval != "15s" {
		all = append(all, "it does not scrape /metrics of such a port each 15 s, for which the alerts are made")
	}
	return all
}

func selects(s *meta.LabelSelector, pod *core.PodTemplateSpec) bool {
	selector, err := meta.LabelSelectorAsSelector(s)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels))
}

func portOf(c *core.Container, name string) int32 {
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}
