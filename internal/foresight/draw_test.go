package foresight

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/flowfile"
)

func parseLoad(t *testing.T, text string) *flowfile.Load {
	t.Helper()
	l, err := flowfile.ParseLoad([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestDraw compares the drawn jobs with the requested distributions, within the error expected for the number of draws.
func TestDraw(t *testing.T) {
	for _, test := range []struct {
		stream string
		// jobs of 100 days, median and mean run time in s, the share of jobs that arrive in the second and third
		// quarter of a day
		jobs, median, mean, noon float64
		within                   float64
	}{
		{"per_hour: 20, run: 10m", 48_000, 600, 600, 0.5, 0.03},
		{"per_hour: 20, run: 10m, spread: 1", 48_000, 600, 600 * math.Exp(0.5), 0.5, 0.03},
		{"per_hour: 20, run: 10m, tail: 3", 48_000, 600 * math.Cbrt(2), 900, 0.5, 0.03},
		{"per_hour: 20, run: 10m, pattern: diurnal", 48_000, 600, 600, 0.5 + 1/math.Pi, 0.03},
		{"per_hour: 20, run: 10m, pattern: bursty, burst: 5", 48_000, 600, 600, 0.5, 0.06},
	} {
		l := parseLoad(t, "seed: 3\nfor: 100d\nstreams:\n- {"+test.stream+"}")
		jobs, err := Draw(l, 1_000_000)
		if err != nil {
			t.Fatalf("%s: %v", test.stream, err)
		}
		again, err := Draw(l, 1_000_000)
		if err != nil || !reflect.DeepEqual(jobs, again) {
			t.Errorf("%s: the same seed draws other jobs: %v", test.stream, err)
		}
		var runs []int64
		sum, noon, gapless := 0.0, 0.0, 0
		for i, j := range jobs {
			runs = append(runs, j.Run)
			sum += float64(j.Run)
			if h := j.Submit / 3_600_000 % 24; h >= 6 && h < 18 {
				noon++
			}
			if i > 0 && j.Submit == jobs[i-1].Submit {
				gapless++
			}
		}
		slices.Sort(runs)
		n := float64(len(jobs))
		for _, f := range []struct {
			name      string
			got, want float64
		}{{"jobs", n, test.jobs}, {"median", float64(runs[len(runs)/2]) / 1000, test.median}, {"mean", sum / n / 1000,
			test.mean}, {"at noon", noon / n, test.noon}} {
			if math.Abs(f.got/f.want-1) > test.within {
				t.Errorf("%s: %s %g, want %g", test.stream, f.name, f.got, f.want)
			}
		}
		if bursty := strings.Contains(test.stream, "bursty"); bursty != (float64(gapless) > n*0.7) {
			t.Errorf("%s: %d of %g jobs come with the one before", test.stream, gapless, n)
		}
	}
	// Processors by weight, estimates up to a factor.
	jobs, err := Draw(parseLoad(t,
		"seed: 3\nfor: 10d\nstreams:\n- {per_hour: 100, run: 10m, processors: {1: 3, 4: 1}, estimate: 3, tenant: x, priority: 2, type: y}"),
		100_000)
	if err != nil {
		t.Fatal(err)
	}
	wide, factor := 0.0, 0.0
	for _, j := range jobs {
		if j.CPUMilli == 4000 {
			wide++
		}
		factor += float64(j.Estimate) / float64(j.Run)
		if j.Estimate < j.Run || j.Tenant != "x" || j.Spec.Priority != 2 || j.Spec.Type != "y" {
			t.Fatalf("%+v", j)
		}
	}
	if n := float64(len(jobs)); math.Abs(wide/n-0.25) > 0.01 || math.Abs(factor/n-2) > 0.03 {
		t.Errorf("%g of %g jobs are wide, estimates are %g times the run", wide, n, factor/n)
	}
}

func TestDraw_refuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"streams: [{run: 5m, per_hour: 1}]", `for: got ""`},
		{"for: 1d\nprocessors: -1\nstreams: [{run: 5m, per_hour: 1}]",
			"processors must be between 1 and 1000000, got -1"},
		{"for: 1d\nstreams: [{run: 5m, per_hour: 1}, {run: 5m}]", "stream 2: per_hour must be more than 0, got 0"},
		{"for: 1d\nstreams: [{run: 5m, per_hour: .nan}]", "per_hour must be more than 0, got NaN"},
		{"for: 1d\nstreams: [{run: 5m, per_hour: 1e9}]", "the load has more than 1000 jobs"},
		{"for: 1d\nstreams: [{run: -5m, per_hour: 1}]", `run: got "-5m"`},
		{"for: 1d\nstreams: [{run: 5m, per_hour: 1, pattern: often}]",
			`pattern must be one of poisson, bursty, diurnal, got "often"`},
		{"for: 1d\nstreams: [{run: 5m, per_hour: 1, pattern: bursty}]",
			"burst must be at least 1 job on average, got 0"},
		{"for: 1d\nstreams: [{run: 5m, per_hour: 1, spread: 1, tail: 1}]",
			"spread must be between 0 and 10, and without tail, got 1"},
		{"for: 1d\nstreams: [{run: 5m, per_hour: 1, tail: .inf}]", "tail must be between 0.1 and 100, got +Inf"},
		{"for: 1d\nstreams: [{run: 5m, per_hour: 1, estimate: 0.5}]", "estimate must be between 1 and 1000, got 0.5"},
		{"for: 1d\nstreams: [{run: 5m, per_hour: 1, processors: {0: 1}}]", "processors: got 0: 1"},
		{"for: 1d\nstreams: [{run: 5m, per_hour: 1, processors: {1: 0}}]", "all weights are 0"},
		{"for: 1d\nstreams: [{run: 5m, per_hour: 1, priority: 11}]", "priority must be between 0 and 10, got 11"},
	} {
		if jobs, err := Draw(parseLoad(t, c.text), 1000); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %d jobs, %v, want %q", c.text, len(jobs), err, c.want)
		}
	}
}

// TestFitting leaves out jobs that no worker could run, one for each reason, and runs the rest.
func TestFitting(t *testing.T) {
	workers := []rota.WorkerSpec{{ID: "a", Slots: 2, CPUMilli: 4000, Region: "eu", Capabilities: []string{"gpu"},
		Limits: map[string]int64{"depth": 5}},
		{ID: "b", Slots: 2, CPUMilli: 2000, MemoryBytes: 100, Types: []rota.JobType{"t"}}}
	lines := []string{`"cpu_milli":3000`, `"requires":["gpu"]`, `"memory_bytes":100,"type":"t"`, `"limits":{"depth":5}`,
		`"regions_allow":["eu"]`, `"worker":"b","type":"t"`,
		`"cpu_milli":5000`, `"requires":["tpu"]`, `"memory_bytes":100`, `"memory_bytes":101,"type":"t"`,
		`"limits":{"depth":6}`, `"regions_allow":["us"]`,
		`"worker":"c"`, `"io_bytes_per_s":1`, `"regions_deny":["eu"]`}
	trace, err := flowfile.ReadTrace(strings.NewReader(`{"submit_ms":0,"run_ms":5,`+strings.Join(lines,
		"}\n{\"submit_ms\":0,\"run_ms\":5,")+"}"), 100)
	if err != nil {
		t.Fatal(err)
	}
	jobs, _, err := FromTimed(trace.Timed)
	if err != nil {
		t.Fatal(err)
	}
	fitting, dropped := Fitting(jobs, workers)
	if len(fitting) != 6 || len(dropped) != 2 || dropped[0].Jobs != 1 || dropped[1].Jobs != 8 {
		t.Fatalf("%d jobs fit, dropped %+v", len(fitting), dropped)
	}
	l := &Life{Jobs: fitting, Workers: workers, Settings: policy(t, "p:").Settings}
	fates, err := Simulate(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int32{0, 0, 1, 0, 0, 1} {
		if fates[i].Worker != want || fates[i].Start < 0 {
			t.Errorf("job %d: %+v, want worker %d", i, fates[i], want)
		}
	}
	trace.Timed[0].Spec.Batch = "b"
	if _, _, err := FromTimed(trace.Timed); err == nil || !strings.Contains(err.Error(),
		"line 1: batch is not simulated") {
		t.Errorf("a job of a batch: %v", err)
	}
}

// TestFromTimed_unended checks that jobs that had not ended run for their estimate, else for the median of their type,
// else of all.
func TestFromTimed_unended(t *testing.T) {
	lines := `{"submit_ms":0,"type":"a","run_ms":3}
{"submit_ms":0,"type":"a","run_ms":5}
{"submit_ms":0,"type":"b","run_ms":1000}
{"submit_ms":0,"type":"a","run_ms":7}
{"submit_ms":0,"type":"a","state":"RUNNING","start_ms":1}
{"submit_ms":0,"type":"b","state":"QUEUED"}
{"submit_ms":0,"type":"c","state":"QUEUED"}
{"submit_ms":0,"type":"c","state":"QUEUED","expected_ms":40}
`
	trace, err := flowfile.ReadTrace(strings.NewReader(lines), 100)
	if err != nil {
		t.Fatal(err)
	}
	jobs, unended, err := FromTimed(trace.Timed)
	if err != nil || unended != 4 {
		t.Fatal(unended, err)
	}
	for i, want := range []int64{3, 5, 1000, 7, 5, 1000, 7, 40} {
		if jobs[i].Run != want || jobs[i].Estimate != want {
			t.Errorf("job %d: %+v, want %d", i, jobs[i], want)
		}
	}
	if _, _, err := FromTimed(trace.Timed[4:7]); err == nil ||
		!strings.Contains(err.Error(), "line 5: run_ms is missing, and no job of the file has ended") {
		t.Errorf("where no job has ended: %v", err)
	}
}
