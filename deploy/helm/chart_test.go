package helm

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write what the chart renders, instead of comparing")

// cases are values that together render every line of the templates.
var cases = map[string]string{
	"plain": "",
	"cert_manager": `
replicas: 5
ids: {rota-1: rota-1b}
tls: {mode: certManager, issuer: {name: rota-ca}}
settings: {backup-to: "s3://backups/rota", api-host: [jobs.example.com], log-format: json}
env: [{name: AWS_REGION, value: eu-central-1}]
envFrom: [{secretRef: {name: s3}}]
imagePullSecrets: [{name: registry}]
image: {repository: registry.example.com/rota, tag: v1}
storage: {size: 100Gi, className: local}
spread: hard
nodeSelector: {disk: ssd}
tolerations: [{key: rota, operator: Exists}]
priorityClassName: high
podAnnotations: {example.com/team: jobs}
service: {annotations: {example.com/internal: "true"}}
networkPolicy: {clients: [{namespaceSelector: {matchLabels: {jobs: "yes"}}}], monitors: [{namespaceSelector: {matchLabels: {name: monitoring}}}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
`,
	"alone": `
replicas: 1
insecure: true
tls: {mode: none}
networkPolicy: {enabled: false}
podDisruptionBudget: {enabled: false}
`,
}

// render returns the chart's output for values in the namespace rota, by file.
func render(values string) (map[string]string, error) {
	chart, err := loader.Load("rota")
	if err != nil {
		return nil, err
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: "rota", Namespace: "rota",
		IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	maps.DeleteFunc(files, func(name, text string) bool {
		return !strings.HasSuffix(name, ".yaml") || strings.TrimSpace(text) == ""
	})
	return files, err
}

// manifest returns all files in one, in the order of their names.
func manifest(t *testing.T, values string) []byte {
	t.Helper()
	files, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b.WriteString("---\n" + strings.TrimPrefix(strings.TrimSpace(files[name]), "---\n") + "\n")
	}
	return b.Bytes()
}

func TestLint(t *testing.T) {
	t.Parallel()
	for name, values := range cases {
		given, err := chartutil.ReadValues([]byte(values))
		if err != nil {
			t.Fatal(err)
		}
		delete(given, "ids") // lint has a release of another name, and so other pods
		for _, m := range lint.All("rota", given, "rota", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// TestGolden compares the output with reviewed files: testdata by cases, and the manifests for kustomize, which are
// those of the default values. `go test . -update` writes them.
func TestGolden(t *testing.T) {
	t.Parallel()
	golden := map[string]string{filepath.Join("kustomize", "rota.yaml"): ""}
	for name, values := range cases {
		golden[filepath.Join("testdata", name+".yaml")] = values
	}
	for path, values := range golden {
		got := manifest(t, values)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the chart renders (%v): go test . -update, and look at the difference", path, err)
		}
	}
}

// TestKinds decodes every object into Kubernetes' own type, strictly: a server would drop or refuse an unknown field.
func TestKinds(t *testing.T) {
	t.Parallel()
	for name, values := range cases {
		for _, text := range strings.Split(string(manifest(t, values)), "\n---\n") {
			var head struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
			}
			if err := yaml.Unmarshal([]byte(text), &head); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			var into any
			switch head.APIVersion + " " + head.Kind {
			case "v1 ConfigMap":
				into = &corev1.ConfigMap{}
			case "v1 Service":
				into = &corev1.Service{}
			case "apps/v1 StatefulSet":
				into = &appsv1.StatefulSet{}
			case "policy/v1 PodDisruptionBudget":
				into = &policyv1.PodDisruptionBudget{}
			case "networking.k8s.io/v1 NetworkPolicy":
				into = &networkingv1.NetworkPolicy{}
			case "cert-manager.io/v1 Certificate", "monitoring.coreos.com/v1 ServiceMonitor":
				into = &map[string]any{} // of operators that are not checked here
			default:
				t.Fatalf("%s: an object of %s %q is not expected", name, head.APIVersion, head.Kind)
			}
			if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
				t.Errorf("%s: %s: %v", name, head.Kind, err)
			}
		}
	}
}

// TestRefused checks that values with a misleading effect are refused by name.
func TestRefused(t *testing.T) {
	t.Parallel()
	for values, says := range map[string]string{
		"replicas: 2":                                 "replicas",
		"replica: 3":                                  "replica",
		"tls: {mode: off}":                            "/tls/mode",
		"tls: {mode: none}":                           "insecure: true",
		"insecure: true":                              "leave one of them out",
		"tls: {secretName: ''}":                       "tls.secretName is wanted",
		"tls: {mode: certManager}":                    "tls.issuer.name is wanted",
		"tls: {issuer: {names: x}}":                   "names",
		"gossip: {secretName: ''}":                    "openssl rand",
		"settings: {node: n1}":                        "settings.node: the chart sets it itself",
		"settings: {Log_Format: json}":                "Log_Format",
		"ids: {rota-3: x}":                            "ids.rota-3: there is no such pod",
		"ids: {rota-1: 'a b'}":                        "ids",
		"storage: {size: big}":                        "size",
		"cluster: Prod":                               "cluster",
		"networkPolicy: {client: []}":                 "client",
		"serviceMonitor: {enabled: yes, interval: 1}": "interval",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q in the message", values, err, says)
		}
	}
}

// TestKustomize builds the base: the chart's output, and the namespace.
func TestKustomize(t *testing.T) {
	t.Parallel()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "kustomize")
	if err != nil {
		t.Fatal(err)
	}
	if n := built.Size(); n != 7 {
		t.Errorf("got %d objects, want 7: %v", n, built.AllIds())
	}
}
