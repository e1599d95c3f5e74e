package foresight

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/rotasched/rota"
)

// batchPolicies are the policies with figures in the literature.
var batchPolicies = map[string]string{
	"FCFS":              "p:ranking=fifo,backfill=none",
	"FCFS EASY":         "p:ranking=fifo,backfill=easy,backfill_depth=100000",
	"SJF":               "p:ranking=shortest,backfill=none",
	"SJF EASY":          "p:ranking=shortest,backfill=easy,backfill_depth=100000",
	"FCFS conservative": "p:ranking=fifo,backfill=conservative,backfill_depth=100000",
	"SJF conservative":  "p:ranking=shortest,backfill=conservative,backfill_depth=100000",
	"EASY-SJBF":         "p:ranking=fifo,backfill=easy,backfill_order=shortest,backfill_depth=100000",
	"batch":             "p:preset=batch",
	"last2":             "p:ranking=fifo,backfill=easy,estimate=last2,backfill_order=shortest,backfill_depth=100000",
}

// figure is the mean bounded slowdown of a policy.
type figure struct {
	policy string
	exact  bool
	want   float64
	within float64 // relative
}

func checkFigures(t *testing.T, plan Plan, figures []figure) {
	t.Helper()
	for _, f := range figures {
		plan.Policies, plan.Exact = []Policy{policy(t, batchPolicies[f.policy])}, f.exact
		got, err := Run(context.Background(), &plan)
		if err != nil {
			t.Fatal(err)
		}
		if s := got[0].BoundedSlowdown; math.Abs(s/f.want-1) > f.within {
			t.Errorf("%s, exact %v: mean bounded slowdown %.10f, want %.10f", f.policy, f.exact, s, f.want)
		}
	}
}

// TestRun_backfill compares windows of two logs with an independent computation of the policies, to the last digit.
func TestRun_backfill(t *testing.T) {
	lublin, _ := Clean(openLog(t, "testdata/lublin_256_1981.swf.gz"), CleanRLS)
	checkFigures(t, Plan{Jobs: lublin, Workers: Machine(256)}, []figure{
		{"FCFS", false, 6862.263618932564, 1e-12}, {"FCFS EASY", false, 130.6598208451383, 1e-12},
		{"SJF", false, 55.855946698980375, 1e-12}, {"SJF EASY", false, 35.969470357243864, 1e-12},
		{"EASY-SJBF", false, 72.6489665411443, 1e-12},
		{"FCFS conservative", false, 184.59882993928164, 1e-12},
		{"SJF conservative", false, 45.415863844599144, 1e-12}})
	checkBatch(t, Plan{Jobs: lublin, Workers: Machine(256)}, 130.6598208451383, 55.0166103534,
		1e-11) // first computed here
	ctc, _ := Clean(openLog(t, "testdata/ctc_sp2_20000.swf.gz"), CleanPredictsim)
	checkBatch(t, Plan{Jobs: ctc, Workers: Machine(338)}, 48.09192853450071, 12.139167868904236, 1e-12)
	checkFigures(t, Plan{Jobs: ctc, Workers: Machine(338)}, []figure{
		{"FCFS EASY", false, 48.09192853450071, 1e-12}, {"FCFS EASY", true, 20.62019797567652, 1e-12},
		{"last2", false, 35.05203030425795, 1e-12}, // first computed here
		{"EASY-SJBF", false, 38.81135801851302, 1e-12}, {"EASY-SJBF", true, 11.900292351085625, 1e-12},
		{"SJF EASY", false, 20.8244024493376, 1e-12},
		{"FCFS conservative", false, 62.052680482201694, 1e-12}, {"FCFS conservative", true, 23.19924709887418, 1e-12}})
}

// checkBatch compares the preset with its figure, which must be a quarter below that of EASY with users' estimates, and
// each wait with its bound.
func checkBatch(t *testing.T, plan Plan, easy, want, within float64) {
	t.Helper()
	plan.Policies = []Policy{policy(t, batchPolicies["batch"])}
	plan.Lived = func(_ *Policy, l *Life, fates []Fate) {
		bounds, none := l.bounds(fates)
		if none != "" {
			t.Error(none)
		}
		for i, bound := range bounds {
			if wait := fates[i].Start - l.Jobs[i].Submit; wait > bound {
				t.Errorf("job %d waits %d ms, promised are at most %d", i, wait, bound)
			}
		}
	}
	got, err := Run(context.Background(), &plan)
	if err != nil {
		t.Fatal(err)
	}
	if s := got[0].BoundedSlowdown; s > 0.75*easy || math.Abs(s/want-1) > within {
		t.Errorf("mean bounded slowdown %.10f, want %.10f, and %.2f at most", s, want, 0.75*easy)
	}
}

// TestRun_published compares whole logs with published figures. The logs are not in the repository.
func TestRun_published(t *testing.T) {
	folder := os.Getenv("ROTA_TRACES")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "data", "traces")
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("no logs at %s: set ROTA_TRACES to their directory", folder)
	}
	if testing.Short() {
		t.Skip("complete logs take minutes")
	}
	log := func(t *testing.T, name string, how Cleaning) []Job {
		jobs, _ := Clean(openLog(t, filepath.Join(folder, name)), how)
		return jobs
	}
	t.Run("lublin", func(t *testing.T) {
		checkFigures(t, Plan{Jobs: log(t, "lublin_256.swf.gz", CleanRLS), Workers: Machine(256),
			Starts: []int{1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085}, Length: 1024}, []figure{
			{"FCFS", false, 7273.77, 1e-6}, {"FCFS EASY", false, 271.40, 2e-5}, {"SJF", false, 47.16,
				1e-4}, {"SJF EASY", false, 42.0838493722, 1e-9}, {"batch", false, 47.487335272, 1e-9}})
	})
	t.Run("ctc", func(t *testing.T) {
		plan := Plan{Jobs: log(t, "CTC-SP2-1996-3.1-cln.swf.gz", CleanPredictsim), Workers: Machine(338)}
		checkFigures(t, plan, []figure{{"FCFS EASY", false, 49.5712902190, 1e-10},
			{"FCFS EASY", true, 37.1654014852, 1e-10},
			{"EASY-SJBF", false, 30.0410695214, 1e-10}, {"EASY-SJBF", true, 17.5716874376, 1e-10}})
		checkBatch(t, plan, 49.5712902190, 30.1318343069, 1e-10)
	})
	t.Run("blue", func(t *testing.T) {
		plan := Plan{Jobs: log(t, "SDSC-BLUE-2000-4.2-cln.swf.gz", CleanPredictsim), Workers: Machine(1152)}
		checkFigures(t, plan, []figure{{"FCFS EASY", false, 36.52, 1e-3}, {"FCFS EASY", true, 30.62, 1e-3},
			{"EASY-SJBF", false, 19.83, 1e-3}, {"EASY-SJBF", true, 13.18, 1e-3}})
		checkBatch(t, plan, 36.52, 21.43, 5e-4)
	})
}

// TestSimulate_backfill checks that room is reserved at the worker expected to be free first, and has a job outlive its
// estimate.
func TestSimulate_backfill(t *testing.T) {
	// The first two fill both workers until 100, by estimate, and until 50. The third gets a reservation at b and
	// starts there at 50, until 150. The fourth gets a reservation at a from 100 on. The first runs until 130: then the
	// fourth and the fifth start.
	starts := startsOf(t, &Life{Jobs: []Job{job(0, 130, 100, 4), job(1, 49, 49, 4), job(2, 100, 100, 4),
		job(3, 40, 40, 2), job(4, 100, 100, 2)},
		Workers:  []rota.WorkerSpec{{ID: "a", Slots: 4, CPUMilli: 4000}, {ID: "b", Slots: 4, CPUMilli: 4000}},
		Settings: policy(t, "p:ranking=fifo,backfill=easy,strategy=round_robin").Settings})
	want := []float64{0, 1, 50, 130, 130}
	for i := range want {
		if starts[i] != want[i] {
			t.Fatalf("starts %v, want %v", starts, want)
		}
	}
}
