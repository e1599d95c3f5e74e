package sched

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"pgregory.net/rapid"
)

func TestEstimate(t *testing.T) {
	t.Parallel()
	done, queued, blocked := rota.NodeState(rota.JobCompleted), rota.NodeState(rota.JobQueued), rota.NodeState(
		rota.JobBlocked)
	running := rota.NodeState(rota.JobRunning)
	for name, c := range map[string]struct {
		nodes     []PlanNode
		durations string
		critical  string
		ms        int64
		remaining int64
	}{
		"nothing": {nil, "[]", "[]", 0, 0},
		"what_is_expected": {[]PlanNode{
			{State: done, Type: "a", TookMs: 10}, {State: done, Type: "a", TookMs: 21},
			{State: done, Type: "b", TookMs: 2},
			{State: blocked, Type: "a", ExpectedMs: 7, SimulateMs: 5}, {State: blocked, Type: "a", SimulateMs: 5},
			{State: blocked, Type: "c", SimulateMs: 5}, {State: blocked, Type: "c"},
		}, "[10 21 2 7 15 5 11]", "[1]", 21, 38},
		"nothing_is_known": {[]PlanNode{{State: queued}, {State: blocked, Parents: []uint32{0}}}, "[0 0]", "[0 1]", 0,
			0},
		"the_longest_way": {[]PlanNode{
			{State: done, TookMs: 5}, {State: done, TookMs: 6, Parents: []uint32{0}},
			{State: running, TookMs: 4, ExpectedMs: 9, Parents: []uint32{0}},
			{State: blocked, ExpectedMs: 3, Parents: []uint32{1, 2}},
			{State: blocked, ExpectedMs: 1, Parents: []uint32{3}},
		}, "[5 6 9 3 1]", "[0 2 3 4]", 18, 9},
		"over_the_nodes_that_run": {[]PlanNode{
			{State: running, TookMs: 1, ExpectedMs: 4}, {State: running, TookMs: 9, ExpectedMs: 4},
			{State: queued, ExpectedMs: 10}, {State: queued, ExpectedMs: 10}, {State: queued, ExpectedMs: 10},
		}, "[4 9 10 10 10]", "[2]", 10, 17},
		"what_failed_took_its_time": {[]PlanNode{
			{State: rota.NodeState(rota.JobDead), TookMs: 8, ExpectedMs: 99},
			{State: rota.NodeSkipped, ExpectedMs: 99, Parents: []uint32{0}},
			{State: rota.NodeState(rota.JobCancelled), ExpectedMs: 99},
		}, "[8 0 0]", "[0 1]", 8, 0},
		"of_equals_the_most_nodes": {[]PlanNode{
			{State: blocked}, {State: blocked}, {State: blocked, Parents: []uint32{1}},
			{State: blocked, Parents: []uint32{0, 2}}, {State: blocked}, {State: blocked, Parents: []uint32{4}},
		}, "[0 0 0 0 0 0]", "[1 2 3]", 0, 0},
		"nodes_count_only_among_equals": {[]PlanNode{
			{State: done, TookMs: 3}, {State: done, TookMs: 1}, {State: done, TookMs: 1, Parents: []uint32{1}},
		}, "[3 1 1]", "[0]", 3, 0},
		"a_gate_takes_no_work": {[]PlanNode{
			{State: done, Type: "a", TookMs: 4}, {State: done, Type: rota.GateType, TookMs: 86_400_000,
				Parents: []uint32{0}},
			{State: rota.NodeWaiting, Type: rota.GateType, TookMs: 60_000, Parents: []uint32{0}},
			{State: blocked, Type: rota.GateType, Parents: []uint32{2}},
			{State: blocked, Type: "b", Parents: []uint32{3}},
		}, "[4 86400000 60000 0 4]", "[0 1]", 86_400_004, 4},
		"through_what_has_grown": { // 1 waits for 0, to which 2 and 3 were added, and to 3 its child 4; 5 is detached
			[]PlanNode{
				{State: done, TookMs: 5}, {State: blocked, ExpectedMs: 3, Parents: []uint32{0}},
				{State: done, TookMs: 2, Parents: []uint32{0}, GrownBy: 1, Joins: true},
				{State: done, TookMs: 1, Parents: []uint32{0}, GrownBy: 1, Joins: true},
				{State: running, TookMs: 1, ExpectedMs: 7, Parents: []uint32{3}, GrownBy: 4, Joins: true},
				{State: blocked, ExpectedMs: 8, Parents: []uint32{3}, GrownBy: 4},
			}, "[5 3 2 1 7 8]", "[0 3 4 1]", 16, 17},
		"through_a_fan_out_that_joins_by_its_leaves": {[]PlanNode{
			{State: done, TookMs: 1}, {State: blocked, ExpectedMs: 1, Parents: []uint32{0}},
			{State: blocked, ExpectedMs: 4, Parents: []uint32{0}, GrownBy: 1},
			{State: blocked, ExpectedMs: 4, Parents: []uint32{2}, GrownBy: 1, Joins: true},
			{State: blocked, ExpectedMs: 1, Parents: []uint32{1}},
		}, "[1 1 4 4 1]", "[0 2 3 1 4]", 11, 10},
		"of_equals_the_first": {[]PlanNode{
			{State: done, TookMs: 1}, {State: done, TookMs: 1}, {State: done, TookMs: 1, Parents: []uint32{0, 1}},
			{State: done, TookMs: 1, Parents: []uint32{1}},
		}, "[1 1 1 1]", "[0 2]", 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Estimate(c.nodes)
			if fmt.Sprint(p.DurationMs) != c.durations || fmt.Sprint(p.Critical) != c.critical ||
				p.CriticalMs != c.ms || p.RemainingMs != c.remaining {
				t.Errorf("%+v, want durations %s, path %s of %d ms, %d ms left", p, c.durations, c.critical, c.ms,
					c.remaining)
			}
		})
	}
}

// TestEstimateRandom compares the chains with all existing ones.
func TestEstimateRandom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]PlanNode, rapid.IntRange(1, 9).Draw(t, "nodes"))
		leased, sum := int64(0), int64(0)
		for i := range nodes {
			n := &nodes[i]
			for parent := range uint32(i) {
				if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
					n.Parents = append(n.Parents, parent)
				}
			}
			n.State = rapid.SampledFrom([]rota.NodeState{rota.NodeState(rota.JobBlocked),
				rota.NodeState(rota.JobRunning), rota.NodeState(rota.JobCompleted)}).Draw(t, "state")
			n.ExpectedMs, n.TookMs = rapid.Int64Range(1, 9).Draw(t, "expected"), rapid.Int64Range(0, 9).Draw(t, "took")
		}
		p := Estimate(nodes)
		rest := make([]int64, len(nodes))
		for i := range nodes {
			switch n := &nodes[i]; rota.JobState(n.State) {
			case rota.JobBlocked:
				rest[i] = n.ExpectedMs
			case rota.JobRunning:
				rest[i] = max(0, n.ExpectedMs-n.TookMs)
				leased++
			}
			sum += rest[i]
		}
		if got, want := p.CriticalMs, naiveChain(nodes, p.DurationMs); got != want {
			t.Fatalf("critical path of %d ms, want %d", got, want)
		}
		share := int64(math.Ceil(float64(sum) / float64(max(leased, 1))))
		if want := max(share, naiveChain(nodes, rest)); p.RemainingMs != want {
			t.Fatalf("%d ms are left, want %d", p.RemainingMs, want)
		}
		checkChain(t, nodes, p)
	})
}

// checkChain checks that the path is a chain from a root to a leaf, with its length.
func checkChain(t interface{ Fatalf(string, ...any) }, nodes []PlanNode, p Plan) {
	ms := int64(0)
	for i, at := range p.Critical {
		ms += p.DurationMs[at]
		if i == 0 && len(nodes[at].Parents) > 0 || i > 0 && !slices.Contains(nodes[at].Parents, p.Critical[i-1]) {
			t.Fatalf("%v is not a path from a root", p.Critical)
		}
	}
	last := p.Critical[len(p.Critical)-1]
	for i := range nodes {
		if slices.Contains(nodes[i].Parents, last) {
			t.Fatalf("%v does not end with a leaf", p.Critical)
		}
	}
	if ms != p.CriticalMs {
		t.Fatalf("path: got %[2]d ms, want %[1]d", ms, p.CriticalMs)
	}
}

// naiveChain tries every path that ends at a leaf.
func naiveChain(nodes []PlanNode, ms []int64) (most int64) {
	var until func(i uint32) int64
	until = func(i uint32) (longest int64) {
		for _, parent := range nodes[i].Parents {
			longest = max(longest, until(parent))
		}
		return longest + ms[i]
	}
	for i := range nodes {
		most = max(most, until(uint32(i)))
	}
	return most
}

// recorded are real executions: their tasks and edges, and in tenths of a second the critical path and the sum of all
// runtimes, as counted by their collector.
var recorded = map[string]struct {
	tasks, edges  int
	critical, sum int64
}{
	"helloworld-forkjoin-10-chameleon.json":        {10, 16, 3074, 10287},
	"bacass-dirt02-001.json":                       {11, 14, 21500, 39619},
	"srasearch-chameleon-10a-001.json":             {22, 30, 10059, 69968},
	"epigenomics-chameleon-hep-1seq-100k-001.json": {41, 48, 1048, 5393},
	"1000genome-chameleon-2ch-100k-001.json":       {52, 76, 2047, 27713},
	"blast-chameleon-large-001.json":               {103, 300, 18191, 1543312},
	"cycles-chameleon-2l-1c-9p-001.json":           {133, 194, 2191, 36667},
	"rnaseq-dirt02-001.json":                       {197, 451, 7595, 25804},
	"soykb-chameleon-30fastq-20ch-001.json":        {416, 1014, 224356, 691142},
	"montage-chameleon-2mass-02d-001.json":         {619, 1641, 227, 16033},
	"seismology-chameleon-1000p-001.json":          {1001, 1000, 54, 5384},
	"montage-chameleon-2mass-04d-001.json":         {1312, 3540, 377, 30225},
}

// TestEstimateRecorded arranges and estimates real workflows: those in the repository, and those in the folder named by
// ROTA_WORKFLOWS.
func TestEstimateRecorded(t *testing.T) {
	t.Parallel()
	here := 0
	for name, want := range recorded {
		text, err := recordedText(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a large one
		} else if err != nil {
			t.Fatal(err)
		}
		here++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, runtimes := readRecorded(t, text)
			g, err := w.Arrange()
			if err != nil || len(g.Order) != want.tasks || g.Edges != want.edges {
				t.Fatalf("%v, %v", g, err)
			}
			nodes, sum := make([]PlanNode, len(g.Order)), int64(0)
			for number, place := range g.Order {
				ms := runtimes[w.Nodes[place].ID]
				nodes[number] = PlanNode{Parents: g.Parents[number], Type: "t",
					State: rota.NodeState(rota.JobCompleted), TookMs: ms}
				sum += ms
			}
			p := Estimate(nodes)
			checkChain(t, nodes, p)
			if got := (p.CriticalMs + 50) / 100; got != want.critical || p.RemainingMs != 0 {
				t.Errorf("critical path of %d ms, want %d.%d s", p.CriticalMs, want.critical/10, want.critical%10)
			}
			for i := range nodes { // before it ran, with each task's runtime simulated
				nodes[i].State, nodes[i].SimulateMs, nodes[i].TookMs = rota.NodeState(
					rota.JobBlocked), nodes[i].TookMs, 0
			}
			before := Estimate(nodes)
			if before.CriticalMs != p.CriticalMs || before.RemainingMs != sum || (sum+50)/100 != want.sum {
				t.Errorf("before: critical path of %d ms, want %d; %d ms left, want %d", before.CriticalMs,
					p.CriticalMs, before.RemainingMs, sum)
			}
		})
	}
	if here < 7 {
		t.Errorf("%d recorded workflows are at hand: the repository has seven", here)
	}
}

// recordedText reads an instance from the folder named by ROTA_WORKFLOWS, or from the repository.
func recordedText(name string) ([]byte, error) {
	if folder := os.Getenv("ROTA_WORKFLOWS"); folder != "" {
		return os.ReadFile(filepath.Join(folder, name))
	}
	packed, err := os.Open(filepath.Join("..", "testdata", "workflows", name+".gz"))
	if errors.Is(err, fs.ErrNotExist) {
		return os.ReadFile(filepath.Join("..", "internal", "flowfile", "testdata", name))
	} else if err != nil {
		return nil, err
	}
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(plain)
}

// readRecorded reads tasks, their parents and their runtimes in milliseconds.
func readRecorded(t *testing.T, text []byte) (*rota.WorkflowSpec, map[string]int64) {
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
				}
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	w, runtimes := &rota.WorkflowSpec{ID: "w"}, map[string]int64{}
	for _, task := range file.Workflow.Specification.Tasks {
		w.Nodes = append(w.Nodes, rota.NodeSpec{ID: task.ID, Parents: task.Parents,
			JobSpec: rota.JobSpec{Type: "task"}})
	}
	for _, task := range file.Workflow.Execution.Tasks {
		runtimes[task.ID] = int64(math.Round(task.RuntimeInSeconds * 1000))
	}
	return w, runtimes
}
