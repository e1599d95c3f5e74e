package flowfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// parsed parses a file's text in the format detected from its content.
func parsed(t testing.TB, text, path string) rota.WorkflowSpec {
	t.Helper()
	spec, err := Parse([]byte(text), path, "", Options{Scale: 1})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return spec
}

const flowYAML = `# a nightly run
id: nightly-7
queue: etl
tenant: acme
on_failure: continue
labels: {team: data}
x-common: &common
  ttl_ms: 60000
  requires: [ssd]
defaults:
  max_runtime_ms: 600000
  labels: {stage: test}
nodes:
  - id: fetch
    type: fetch
    payload: "2026-01-31"
  - {id: clean, type: clean, parents: [fetch], <<: *common, requires: [gpu]}
  - id: count
    type: count
    parents:
      - fetch
    priority: 0
    max_runtime_ms: 5000
    labels: {by: hand}
  - {id: report, type: mail, payload: {base64: "/w=="}}
edges:
  - {from: clean, to: report}
  - {from: count, to: report}
`

const flowJSON = `{"id": "nightly-7", "queue": "etl", "tenant": "acme", "on_failure": "continue",
 "labels": {"team": "data"},
 "nodes": [
  {"id": "fetch", "type": "fetch", "payload": "2026-01-31"},
  {"id": "clean", "type": "clean", "parents": ["fetch"], "ttl_ms": 60000, "requires": ["gpu"]},
  {"id": "count", "type": "count", "parents": ["fetch"], "priority": 0, "max_runtime_ms": 5000, "labels": {"by": "hand"}},
  {"id": "report", "type": "mail", "payload": {"base64": "/w=="}}],
 "edges": [{"from": "clean", "to": "report"}, {"from": "count", "to": "report"}],
 "defaults": {"max_runtime_ms": 600000, "labels": {"stage": "test"}}}`

// The same workflow in YAML, with anchors and a merge key, and in JSON is the same.
func TestParseFlow(t *testing.T) {
	t.Parallel()
	spec := parsed(t, flowYAML, "nightly.yaml")
	if again := parsed(t, flowJSON, "nightly.json"); !reflect.DeepEqual(spec, again) {
		t.Errorf("YAML gives\n%+v\nJSON gives\n%+v", spec, again)
	}
	if again := parsed(t, flowJSON, "nightly.yaml"); !reflect.DeepEqual(spec, again) {
		t.Error("JSON in a file called .yaml is another workflow")
	}
	if spec.ID != "nightly-7" || spec.Queue != "etl" || spec.Tenant != "acme" ||
		spec.OnFailure != rota.FailureContinue ||
		spec.Labels["team"] != "data" || len(spec.Nodes) != 4 || len(spec.Edges) != 2 {
		t.Fatalf("%+v", spec)
	}
	fetch, clean, count, report := spec.Nodes[0], spec.Nodes[1], spec.Nodes[2], spec.Nodes[3]
	if fetch.Priority != rota.DefaultPriority || count.Priority != 0 {
		t.Errorf("priorities are %d and %d: 5 where absent, 0 where given", fetch.Priority, count.Priority)
	}
	if fetch.MaxRuntime != 10*time.Minute || count.MaxRuntime != 5*time.Second || clean.TTL != time.Minute ||
		string(report.Payload) != "\xff" {
		t.Errorf("%+v", spec.Nodes)
	}
	if !reflect.DeepEqual(clean.Requires, []string{"gpu"}) {
		t.Errorf("a merge key overrides the node's own: %v", clean.Requires)
	}
	if !reflect.DeepEqual(count.Labels, map[string]string{"stage": "test", "by": "hand"}) || len(fetch.Labels) != 1 {
		t.Errorf("labels of defaults and node: %v, of another node: %v", count.Labels, fetch.Labels)
	}
	if _, err := spec.Arrange(); err != nil {
		t.Error(err)
	}
}

// rota.WorkflowSpec's own JSON is accepted.
func TestParseFlow_takes_the_spec_itself(t *testing.T) {
	t.Parallel()
	spec := parsed(t, flowYAML, "")
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if back := parsed(t, string(text), ""); !reflect.DeepEqual(back, spec) {
		t.Errorf("came back as\n%+v, was\n%+v", back, spec)
	}
}

func TestParseFlow_refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path, text string
		want             []string
	}{
		{"nothing", "", " \n", []string{"empty"}},
		{"broken_json", "f.json", "{\"id\": \"w\",\n \"nodes\": [\n {\"id\" \"a\"}]}", []string{"line 3", "not JSON"}},
		{"half_a_file", "f.json", "{\"nodes\": [\n {\"id\"", []string{"line 2", "not JSON", "end"}},
		{"broken_yaml", "f.yaml", "nodes:\n  - id: a\n   type: b\n", []string{"not YAML", "line "}},
		{"two_documents", "f.yaml", "nodes: [{id: a, type: t}]\n---\nnodes: []\n", []string{"one workflow per file"}},
		{"a_list", "f.yaml", "- id: a\n", []string{"object"}},
		{"no_nodes", "f.yaml", "id: w\nnodes:\n", []string{"line 2", "one node at least"}},
		{"nodes_by_name", "f.yaml", "nodes:\n  a: {type: t}\n", []string{"line 2", "lists"}},
		{"unknown_field", "f.yaml", "name: w\nnodes: [{id: a, type: t}]\n",
			[]string{"line 1", `"name"`, `did you mean "id"?`}},
		{"misspelled_field", "f.yaml", "nodes:\n- {id: a, type: t, paylod: x}\n",
			[]string{"line 2", `"paylod"`, `did you mean "payload"?`}},
		{"unknown_node_field", "f.yaml", "nodes:\n- id: a\n  type: t\n- id: b\n  type: t\n  depends_on: [a]\n",
			[]string{"line 4", `node "b"`, `"depends_on"`, `did you mean "parents"?`}},
		{"wrong_type", "f.yaml", "nodes:\n- {id: 7, type: t}\n",
			[]string{"line 2", "node 1", "id: got a number", "quotes"}},
		{"wrong_number", "f.json", `{"nodes":[{"id":"a","type":"t","priority":"high"}]}`,
			[]string{`node "a"`, "priority: got a string", "want an integer"}},
		{"out_of_range", "f.yaml", "nodes:\n- {id: a, type: t, priority: 11}\n",
			[]string{"line 2", `node "a"`, "priority must be between 0 and 10, got 11"}},
		{"no_id", "f.yaml", "nodes: [{type: t}]", []string{"node 1", "id is missing"}},
		{"no_type", "f.yaml", "nodes: [{id: a}]", []string{`node "a"`, "type is missing"}},
		{"blank_in_id", "f.yaml", "nodes: [{id: a b, type: t}]", []string{`"a b"`, "blanks"}},
		{"twice", "f.yaml", "nodes:\n- {id: a, type: t}\n- {id: a, type: t}\n",
			[]string{"line 3", `duplicate node "a"`, "first in line 2"}},
		{"unknown_parent", "f.yaml", "nodes:\n- {id: fetch, type: t}\n- {id: b, type: t, parents: [fecth]}\n",
			[]string{"line 3", `node "b"`, `parent "fecth"`, `did you mean "fetch"?`}},
		{"unknown_end", "f.yaml", "nodes: [{id: a, type: t}]\nedges:\n- {from: a, to: zzz}\n",
			[]string{"line 3", `"a" → "zzz"`, "to is not a node"}},
		{"edge_field", "f.yaml", "nodes: [{id: a, type: t}]\nedges: [{form: a, to: a}]\n",
			[]string{"line 2", `"form"`}},
		{"tenant_of_a_node", "f.yaml", "nodes: [{id: a, type: t, tenant: x}]", []string{`node "a"`, "tenant"}},
		{"defaults_with_id", "f.yaml", "defaults: {id: a}\nnodes: [{id: a, type: t}]", []string{"defaults"}},
		{"policy", "f.yaml", "on_failure: stop\nnodes: [{id: a, type: t}]",
			[]string{"line 1", `"stop"`, "fail_fast, continue"}},
		{"infinity", "f.yaml", "nodes: [{id: a, type: t, simulate_ms: .inf}]", []string{"line 1", "finite"}},
		{"alias_in_itself", "f.yaml", "nodes:\n- &a {id: a, type: t, requires: *a}\n", []string{"line 2"}},
		{"field_twice", "f.json", `{"nodes":[{"id":"a","type":"t"}],"nodes":[]}`, []string{`duplicate "nodes"`}},
		{"yaml_field_twice", "f.yaml", "nodes:\n- {id: a, type: t, id: b}\n", []string{"line 2", `duplicate "id"`}},
		{"node_is_text", "f.json", `{"nodes":["a"]}`, []string{"node 1: want an object"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(c.text), c.path, "", Options{Scale: 1})
			var faults Faults
			if !errors.As(err, &faults) {
				t.Fatalf("got %v, want faults of the file", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in: %v", want, err)
				}
			}
		})
	}
}

// All faults of a file are reported at once, up to a bound.
func TestParseFlow_tells_all_faults(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte("nodes:\n- {id: a}\n- {id: b, type: t, parents: [c]}\n- {id: d, type: t, priority: -1}\n"),
		"", "", Options{})
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != 3 {
		t.Errorf("got %v, want three faults", err)
	}
	// A node that has a fault is there all the same: its children have none.
	_, err = Parse([]byte("nodes:\n- {id: a, type: t, prio: 1}\n- {id: b, type: t, parents: [a]}\n"), "", "", Options{})
	if !errors.As(err, &faults) || len(faults) != 1 {
		t.Errorf("got %v, want one fault", err)
	}
	_, err = Parse([]byte("nodes:\n"+strings.Repeat("- {id: a}\n", 1000)), "", "", Options{})
	if !errors.As(err, &faults) || len(faults) != MaxFaults {
		t.Errorf("got %d faults, want %d", len(faults), MaxFaults)
	}
}

// A few aliases that name very much are refused before they fill memory.
func TestParseFlow_aliases_are_bounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("x-0: &a0 [" + strings.Repeat("aaaaaaaa,", 100) + "]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&text, "x-%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 20),
			","))
	}
	text.WriteString("nodes: [{id: a, type: t, requires: *a8}]\n")
	if _, err := Parse([]byte(text.String()), "f.yaml", "", Options{}); err == nil ||
		!strings.Contains(err.Error(), "longer than") {
		t.Errorf("got %v", err)
	}
}

// FuzzWorkflowFile: no text makes the parser panic; a workflow that it accepts has sound ids.
func FuzzWorkflowFile(f *testing.F) {
	for _, text := range []string{flowYAML, flowJSON, "{}", "[", "nodes: [*a]", "a: &a [*a]", "<<: *x",
		"nodes:\n- &a {<<: *a}\n",
		`{"nodes":[null,{"id":"a","type":"t","payload":7}],"edges":null}`, "nodes: !!binary aGk=\n",
		"{nodes: [{id: a, type: t}]}",
		"? [a]\n: b\n", "nodes: [{id: !!float 1, type: !x t}]"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, path := range []string{"f.json", "f.yaml"} {
			spec, err := Parse(text, path, FormatRota, Options{Scale: 1})
			if err != nil {
				if err.Error() == "" {
					t.Error("an error without a text")
				}
				continue
			}
			for i := range spec.Nodes {
				if err := rota.CheckNodeID("id", spec.Nodes[i].ID); err != nil {
					t.Error(err)
				}
			}
			spec.ID = cmp.Or(spec.ID, "w")
			_, _ = spec.Arrange() // it may refuse, not panic
		}
	})
}
