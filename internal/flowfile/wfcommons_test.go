package flowfile

import (
	"compress/gzip"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

func instance(t testing.TB, path string, o Options) rota.WorkflowSpec {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !isWfCommons(text) {
		t.Errorf("%s is not recognized as an instance", path)
	}
	spec, err := Parse(text, path, "", o)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	spec.ID = "w"
	return spec
}

func TestParseWfCommons(t *testing.T) {
	t.Parallel()
	t.Run("fork_and_join", func(t *testing.T) {
		t.Parallel()
		spec := instance(t, "testdata/helloworld-forkjoin-10-chameleon.json", Options{Scale: 0.01})
		g, err := spec.Arrange()
		if err != nil || g.Edges != 16 || len(spec.Nodes) != 10 {
			t.Fatalf("%v, %d nodes", err, len(spec.Nodes))
		}
		first := spec.Nodes[0]
		if first.ID != "cpuhog_forkjoin_00000001" || first.Type != "cpuhog" ||
			first.Simulate != 1002*time.Millisecond || first.CPUMilli != 0 ||
			first.Priority != rota.DefaultPriority {
			t.Errorf("%+v", first)
		}
		if !reflect.DeepEqual(first.DataKeys, []string{"forkjoin_00000001_input.txt"}) {
			t.Errorf("data keys of the root: %v", first.DataKeys)
		}
		if join := slices.IndexFunc(spec.Nodes, func(n rota.NodeSpec) bool { return len(n.Parents) == 8 }); join < 0 {
			t.Error("no node joins the eight")
		}
	})
	t.Run("programs_that_are_scripts", func(t *testing.T) {
		t.Parallel()
		spec := instance(t, "testdata/bacass-dirt02-001.json", Options{Scale: 1})
		if g, err := spec.Arrange(); err != nil || g.Edges != 14 || len(spec.Nodes) != 11 {
			t.Fatalf("%v, %d nodes", err, len(spec.Nodes))
		}
		types := map[string]rota.JobType{}
		for _, n := range spec.Nodes {
			types[n.ID] = n.Type
		}
		for id, want := range map[string]rota.JobType{"NFCORE_BACASS.BACASS.FASTQC_2": "NFCORE_BACASS.BACASS.FASTQC",
			"NFCORE_BACASS.BACASS.MULTIQC_11": "multiqc"} {
			if types[id] != want {
				t.Errorf("%s has type %q, want %q", id, types[id], want)
			}
		}
		if !slices.Contains([]rota.JobType{types["NFCORE_BACASS.BACASS.QUAST_9"],
			types["NFCORE_BACASS.BACASS.QUAST_8"]}, "quast.py") {
			t.Errorf("types are %v", types)
		}
	})
	t.Run("resources_when_asked_for", func(t *testing.T) {
		t.Parallel()
		text := `{"workflow":{"specification":{"tasks":[{"id":"a"}]},"execution":{"tasks":[
			{"id":"a","runtimeInSeconds":1.5,"coreCount":2.5,"memoryInBytes":1e6,"command":{"program":"/opt/bin/x y"}}]}}}`
		for _, asked := range []bool{false, true} {
			spec, err := parseWfCommons([]byte(text), Options{Scale: 2, Resources: asked})
			if err != nil {
				t.Fatal(err)
			}
			n := spec.Nodes[0]
			if n.Simulate != 3*time.Second || n.Type != "x" || (n.CPUMilli == 2500) != asked ||
				(n.MemoryBytes == 1<<20) != asked {
				t.Errorf("%+v", n)
			}
		}
	})
}

func TestParseWfCommons_refuses(t *testing.T) {
	t.Parallel()
	whole := func(spec, runs string) string {
		return `{"schemaVersion":"1.5","workflow":{"specification":{"tasks":[` + spec + `]},"execution":{"tasks":[` +
			runs + `]}}}`
	}
	run := func(id, seconds string) string {
		return `{"id":"` + id + `","runtimeInSeconds":` + seconds + `,"command":{"program":"p"}}`
	}
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"broken", "{\n\"workflow\": {\n,", []string{"line 3", "not JSON"}},
		{"no_workflow", `{"name":"x"}`, []string{"workflow is missing"}},
		{"older", `{"schemaVersion":"1.3","workflow":{"tasks":[]}}`, []string{"WfFormat 1.5", "1.3"}},
		{"no_tasks", whole("", ""), []string{"one task"}},
		{"twice", whole(`{"id":"a"},{"id":"a"}`, run("a", "1")), []string{`duplicate task "a"`, "1 and 2"}},
		{"no_record", whole(`{"id":"a"},{"id":"b"}`, run("a", "1")), []string{`does not have task "b"`}},
		{"record_of_none", whole(`{"id":"a"}`, run("a", "1")+","+run("b", "1")), []string{`"b"`, "does not have"}},
		{"two_records", whole(`{"id":"a"}`, run("a", "1")+","+run("a", "1")), []string{`"a" twice`}},
		{"negative", whole(`{"id":"a"}`, run("a", "-1")), []string{`task "a"`, "-1"}},
		{"endless", whole(`{"id":"a"}`, run("a", "1e300")), []string{`task "a"`, "1e+300"}},
		{"not_finite", whole(`{"id":"a"}`, run("a", "1e999")), []string{"line 1", "runtimeInSeconds"}},
		{"no_runtime", whole(`{"id":"a"}`, `{"id":"a"}`), []string{`task "a"`, "runtimeInSeconds is missing"}},
		{"parent", whole(`{"id":"a","parents":["z"]}`, run("a", "1")), []string{`task "a"`, `parent "z"`}},
		{"child", whole(`{"id":"a","children":["z"]}`, run("a", "1")), []string{`task "a"`, `child "z"`}},
		{"no_id", whole(`{"name":"a"}`, run("", "1")), []string{"printable UTF-8 without blanks"}},
		{"files_as_objects", whole("\n"+`{"id":"a","inputFiles":[{"name":"f"}]}`, run("a", "1")),
			[]string{"line 2", "inputFiles"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(c.text), "", FormatWfCommons, Options{Scale: 1})
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

// Edges in the record of one side, or of both, are edges once.
func TestParseWfCommons_joins_edges(t *testing.T) {
	t.Parallel()
	spec, err := parseWfCommons([]byte(`{"workflow":{"specification":{"tasks":[
		{"id":"a","children":["b","c"]},{"id":"b","parents":["a","a"]},{"id":"c"},{"id":"d","parents":["c"]}]}}}`), Options{Scale: 1})
	if err != nil {
		t.Fatal(err)
	}
	var parents [][]string
	for _, n := range spec.Nodes {
		parents = append(parents, n.Parents)
	}
	if want := [][]string{nil, {"a"}, {"a"}, {"c"}}; !reflect.DeepEqual(parents, want) {
		t.Errorf("parents are %v, want %v", parents, want)
	}
	if spec.Nodes[0].Type != "a" || spec.Nodes[0].Simulate != 0 {
		t.Errorf("a task that never ran: %+v", spec.Nodes[0])
	}
}

func TestWfType(t *testing.T) {
	t.Parallel()
	task := &wfTask{ID: "t_1", Name: "A.B"}
	for program, want := range map[string]rota.JobType{
		"mProject": "mProject", "bowtie2-build": "bowtie2-build", "/usr/bin/env x": "env", "a b\nc": "a", "": "A.B",
		"# say\n\n  skewer -m": "skewer", "[ ! -f x ] && y": "A.B", "i=0\nrun $i": "A.B", "naïve": "na__ve",
		strings.Repeat("x", 99) + "end": rota.JobType(strings.Repeat("x", 61) + "end"),
	} {
		if got := wfType(program, task); got != want {
			t.Errorf("%q has type %q, want %q", program, got, want)
		}
	}
}

func TestDataKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("d/", 100) + "file"
	a, b := dataKey(long+"1"), dataKey(long+"2")
	if a == b || len(a) != rota.MaxLabelBytes || a != dataKey(long+"1") || !strings.HasPrefix(a, "d/d/") {
		t.Errorf("long ids become %q and %q", a, b)
	}
	if got := dataKey("a b"); !strings.HasPrefix(got, "a_b~") || got == dataKey("a_b") {
		t.Errorf("a blank becomes %q", got)
	}
	m := &wfMaker{sizes: map[string]float64{"big": 9}, produced: map[string]bool{"made": true}}
	task := &wfTask{InputFiles: []string{"made", "x", "x"}}
	if got := m.dataKeys(task); !reflect.DeepEqual(got, []string{"x"}) {
		t.Errorf("keys are %v", got)
	}
	for i := range 40 {
		task.InputFiles = append(task.InputFiles, strings.Repeat("y", i+1))
	}
	task.InputFiles = append(task.InputFiles, "big")
	if got := m.dataKeys(task); len(got) != rota.MaxDataKeys || got[0] != "big" {
		t.Errorf("%d keys, the first %q: the largest count", len(got), got[0])
	}
}

// Every instance that the repository has becomes a workflow, and so does every one in
// the folder that ROTA_WORKFLOWS names.
func TestParseWfCommons_all_instances(t *testing.T) {
	t.Parallel()
	want := map[string]struct{ nodes, edges int }{
		"helloworld-forkjoin-10-chameleon": {10, 16}, "bacass-dirt02-001": {11, 14},
		"srasearch-chameleon-10a-001":             {22, 30},
		"epigenomics-chameleon-hep-1seq-100k-001": {41, 48}, "1000genome-chameleon-2ch-100k-001": {52, 76},
		"blast-chameleon-large-001": {103, 300}, "cycles-chameleon-2l-1c-9p-001": {133, 194},
		"rnaseq-dirt02-001":                {197, 451},
		"soykb-chameleon-30fastq-20ch-001": {416, 1014}, "montage-chameleon-2mass-02d-001": {619, 1641},
		"seismology-chameleon-1000p-001": {1001, 1000}, "montage-chameleon-2mass-04d-001": {1312, 3540},
	}
	here := 0
	for name, w := range want {
		path := recordedPath(t, name+".json")
		if path == "" {
			continue // a large one
		}
		here++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := instance(t, path, Options{Scale: 0.1, Resources: true})
			g, err := spec.Arrange()
			if err != nil || len(spec.Nodes) != w.nodes || g.Edges != w.edges {
				t.Fatalf("%d nodes and %v, want %v; %v", len(spec.Nodes), g, w, err)
			}
			total := int64(0)
			for i := range spec.Nodes {
				total += spec.Nodes[i].Simulate.Milliseconds()
			}
			if total == 0 {
				t.Error("every node takes no time")
			}
		})
	}
	if here < 7 {
		t.Errorf("found %d instances, the repository has seven", here)
	}
}

// recordedPath finds an instance in the folder that ROTA_WORKFLOWS names, or in the
// repository; "" where it is in neither.
func recordedPath(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join("testdata", name)
	if folder := os.Getenv("ROTA_WORKFLOWS"); folder != "" {
		path = filepath.Join(folder, name)
	} else if packed, err := os.Open(filepath.Join("..", "..", "testdata", "workflows", name+".gz")); err == nil {
		defer packed.Close()
		path = filepath.Join(t.TempDir(), name)
		text, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, plain, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// FuzzWfCommons: no text makes the parser panic; a text that it accepts is a valid workflow except for its shape as a
// graph.
func FuzzWfCommons(f *testing.F) {
	for _, path := range []string{"testdata/helloworld-forkjoin-10-chameleon.json", "testdata/bacass-dirt02-001.json"} {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, 0.01, false)
	}
	f.Add([]byte(`{"workflow":{"specification":{"tasks":[{"id":"a","children":["a"]}]}}}`), math.MaxFloat64, true)
	f.Fuzz(func(t *testing.T, text []byte, scale float64, resources bool) {
		spec, err := Parse(text, "", FormatWfCommons, Options{Scale: scale, Resources: resources})
		if err != nil {
			return
		}
		for i := range spec.Nodes {
			n := spec.Nodes[i].JobSpec
			n.Queue, n.Tenant = "q", "t"
			if err := n.CheckTemplate(0); err != nil {
				t.Errorf("task %q: %v", spec.Nodes[i].ID, err)
			}
		}
		spec.ID = "w"
		_, _ = spec.Arrange() // it may refuse, not panic
	})
}

// TestInSteps rounds recorded memory up to few classes, never below the recorded value.
func TestInSteps(t *testing.T) {
	t.Parallel()
	seen := map[int64]bool{}
	for n := int64(0); n < 1<<20; n += 7 {
		v := inSteps(n)
		if v < n || v > n+n/8+1 || inSteps(v) != v {
			t.Fatalf("%d became %d, then %d", n, v, inSteps(v))
		}
		seen[v] = true
	}
	if len(seen) > 8*21 {
		t.Errorf("%d steps", len(seen))
	}
	if got := inSteps(rota.MaxMemoryBytes); got != rota.MaxMemoryBytes {
		t.Errorf("the most became %d", got)
	}
}
