package e2e

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// recordedHere is the folder of two small recorded workflows in the repository.
const recordedHere = "../../internal/flowfile/testdata"

// unpacked writes the other recorded workflows (WfFormat 1.5) of the repository to a
// folder, as users have them.
func unpacked(t *testing.T) (paths []string) {
	t.Helper()
	packed, err := filepath.Glob(filepath.Join("..", "..", "testdata", "workflows", "*.json.gz"))
	check(t, err)
	if len(packed) != 5 {
		t.Fatalf("recorded workflows are %v, want five", packed)
	}
	folder := t.TempDir()
	for _, path := range packed {
		text, err := os.Open(path)
		check(t, err)
		plain, err := gzip.NewReader(text)
		check(t, err)
		content, err := io.ReadAll(plain)
		check(t, errors.Join(err, text.Close()))
		paths = append(paths, writeFile(t, filepath.Join(folder, strings.TrimSuffix(filepath.Base(path), ".gz")),
			string(content)))
	}
	return paths
}

// manyTasks is the number of tasks from which on the leader is killed while a workflow runs.
const manyTasks = 100

// TestWorkflowsRecorded runs recorded executions to their end, those with many tasks through the leader's death, and
// checks every event against their graphs.
func TestWorkflowsRecorded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "dag", "--preset", "dag").want(t, 0)
	// Memory bounds the first, processors the second, slots the third.
	workers := map[string]offered{"flow-a": {8, 0, 8_000, 5_000_000_000}, "flow-b": {8, 4, 5_000, 20_000_000_000},
		"flow-c": {6, 0, 6_000, 10_000_000_000}}
	for id, w := range workers {
		c.worker(t, w.flags(id, "dag")...)
	}
	here, err := filepath.Glob(filepath.Join(recordedHere, "*-*.json"))
	check(t, err)
	if len(here) != 2 {
		t.Fatalf("recorded workflows in %s: got %v, want two", recordedHere, here)
	}
	for _, path := range here {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) { runRecorded(t, c, path, workers) })
	}
	others := unpacked(t)
	for _, path := range others {
		if strings.Contains(path, "blast") || full() { // its tasks are enough for the leader's death
			t.Run(strings.TrimSuffix(filepath.Base(path), ".json"),
				func(t *testing.T) { runRecorded(t, c, path, workers) })
		}
	}
	t.Run("folder", func(t *testing.T) {
		folder := os.Getenv("ROTA_WORKFLOWS")
		if folder == "" {
			t.Skip("ROTA_WORKFLOWS names no folder with more of them")
		}
		more, err := filepath.Glob(filepath.Join(folder, "*.json"))
		check(t, err)
		for _, path := range more {
			same := func(other string) bool { return filepath.Base(other) == filepath.Base(path) }
			if slices.ContainsFunc(here, same) || full() && slices.ContainsFunc(others, same) ||
				strings.Contains(path, "blast") {
				continue // it ran above
			}
			t.Run(strings.TrimSuffix(filepath.Base(path), ".json"),
				func(t *testing.T) { runRecorded(t, c, path, workers) })
		}
	})
	c.verified(t, 3)
}

// recording is a recorded execution as this test reads it.
type recording struct {
	nodes map[string]asked
	// seconds is the sum of all runtimes, chain that of the longest chain.
	seconds, chain float64
}

// readRecording reads a file in WfFormat 1.5, without the product's code.
func readRecording(t *testing.T, path string) *recording {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	var file struct {
		Workflow struct {
			Specification struct {
				Tasks []struct {
					ID      string
					Parents []string
				}
			}
			Execution struct {
				Tasks []struct {
					ID               string
					RuntimeInSeconds float64
					CoreCount        float64
					MemoryInBytes    float64
				}
			}
		}
	}
	check(t, json.Unmarshal(text, &file))
	r := &recording{nodes: map[string]asked{}}
	runtimes := map[string]float64{}
	for _, task := range file.Workflow.Specification.Tasks {
		r.nodes[task.ID] = asked{parents: task.Parents}
	}
	for _, task := range file.Workflow.Execution.Tasks {
		n := r.nodes[task.ID]
		n.cpu, n.memory = int64(math.Ceil(task.CoreCount*1000)), int64(math.Ceil(task.MemoryInBytes))
		r.nodes[task.ID], runtimes[task.ID] = n, task.RuntimeInSeconds
		r.seconds += task.RuntimeInSeconds
	}
	ends := map[string]float64{}
	var end func(id string) float64
	end = func(id string) float64 {
		if known, ok := ends[id]; ok {
			return known
		}
		start := 0.0
		for _, p := range r.nodes[id].parents {
			start = max(start, end(p))
		}
		ends[id] = start + runtimes[id]
		return ends[id]
	}
	for id := range r.nodes {
		r.chain = max(r.chain, end(id))
	}
	return r
}

// scale returns the factor on runtimes with which the recording takes about `takes` with the given slots.
func (r *recording) scale(takes time.Duration, slots int) string {
	return fmt.Sprintf("%.9f", takes.Seconds()/max(r.chain, r.seconds/float64(slots)))
}

func runRecorded(t *testing.T, c *nodes, path string, workers map[string]offered) {
	r := readRecording(t, path)
	slots := 0
	for _, w := range workers {
		slots += w.slots
	}
	takes := time.Second
	if len(r.nodes) >= manyTasks {
		takes = 4 * time.Second
	}
	id := strings.TrimSuffix(filepath.Base(path), ".json")
	from := c.now(t)
	began := time.Now()
	done := decode[rota.WorkflowSubmitted](t, c.rota(t, "workflow", "submit", path, "--format", "wfcommons",
		"--resources", "--queue", "dag", "--id", id, "--time-scale", r.scale(takes, slots), "-o", "json"))
	if done.Nodes != int64(len(r.nodes)) || done.Existed {
		t.Errorf("the submission returns %+v of %d nodes", done, len(r.nodes))
	}
	if len(r.nodes) >= manyTasks {
		leaderDiesDuring(t, c, id, int64(len(r.nodes)))
	}
	c.rota(t, "workflow", "wait", id, "--timeout", "90s").want(t, 0)
	took := time.Since(began)
	a := newAccount(id, r.nodes, workers)
	a.read(c.rota(t, "events", "tail", "-o", "jsonl", "--from", from).want(t, 0).stdout)
	w := c.flow(t, id)
	a.complete(w)
	a.judge(t)
	if len(r.nodes) >= manyTasks && a.terms == 0 {
		t.Errorf("no leadership began while %s ran: the leader's death did not test it", id)
	}
	t.Logf("%d nodes in %s, %d ms by the cluster clock, %d leaderships began meanwhile, %d assignments again, most leases %v",
		len(r.nodes), took.Round(time.Millisecond), w.Finished.Clock-w.Submitted.Clock, a.terms, a.again, a.most)
}

// leaderDiesDuring kills the leader when some of a workflow's nodes have completed, and starts it again.
func leaderDiesDuring(t *testing.T, c *nodes, id string, nodes int64) {
	t.Helper()
	leader := c.leader(t)
	eventually(t, 60*time.Second, "a tenth of the nodes have completed", func() error {
		r := c.rota(t, "workflow", "list", "-o", "json", "--limit", "1000").want(t, 0)
		for _, w := range parse[rota.WorkflowPage](t, r).Workflows {
			if string(w.ID) == id && w.Counts.Completed >= nodes/10 {
				return nil
			}
		}
		return errNotYet
	})
	leader.Kill()
	c.leader(t)
	leader.start(c.t) // it outlives this subtest
	leader.awaitReady(t)
}

// A measurement of workflows compares them with their bounds and reports the rules by which workers were chosen.
func TestBenchWorkflow(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	files, err := filepath.Glob(filepath.Join(recordedHere, "*-*.json"))
	check(t, err)
	args := append([]string{"bench", "workflow", "--bound", "500ms", "--strategy", "affinity,least_loaded"}, files...)
	type run struct {
		Workflow, Strategy                        string
		Makespan                                  int64 `json:"makespan_ms"`
		Critical                                  int64 `json:"critical_path_ms"`
		Area                                      int64 `json:"area_ms"`
		Nodes, Edges, Workers, Slots, Assignments int
		Ratio                                     float64
		Reasoning                                 map[string]int
	}
	runs := decode[struct{ Runs []run }](t, c.rota(t, args...)).Runs
	if len(runs) != 2*len(files) {
		t.Fatalf("%d runs of %d files with two strategies", len(runs), len(files))
	}
	for i, r := range runs {
		total := 0
		for _, n := range r.Reasoning {
			total += n
		}
		want := readRecording(t, files[i/2])
		// Runtimes are rounded to milliseconds, at most one a node.
		if bound := max(r.Critical, r.Area); r.Nodes != len(want.nodes) || bound < 490 || bound > 510 ||
			r.Makespan+int64(r.Nodes) < bound ||
			total != r.Assignments || total < r.Nodes {
			t.Errorf("%+v", r)
		}
		if located := r.Reasoning["Affinity{DataLocality}"]; (located > 0) != (r.Strategy == "affinity") {
			t.Errorf("%s with %s: %d assignments went to data", r.Workflow, r.Strategy, located)
		}
	}
	c.verified(t, 3)
}
