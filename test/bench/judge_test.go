package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestSample(t *testing.T) {
	t.Parallel()
	before, err := readSample(strings.NewReader(`# TYPE x counter
process_cpu_seconds_total 1.5
rota_jobs{queue="a b",state="QUEUED"} 2
rota_jobs{queue="c",state="QUEUED"} 3
h_bucket{le="0.1"} 5
h_bucket{le="1"} 6
h_bucket{le="+Inf"} 6
h_count 6
`))
	if err != nil || before[metricCPU] != 1.5 || before["rota_jobs"] != 5 {
		t.Fatalf("%v, %v", before, err)
	}
	// Only observations between two samples count: the 1 of before does not.
	after := sample{`h_bucket{le="0.1"}`: 9, `h_bucket{le="1"}`: 10, `h_bucket{le="+Inf"}`: 10, "h_count": 10}
	if got := largestBucket(before, after, "h"); got != 0.1 {
		t.Errorf("the largest is %g, want 0.1", got)
	}
	after[`h_bucket{le="+Inf"}`], after["h_count"] = 11, 11
	if got := largestBucket(before, after, "h"); !math.IsInf(got, 1) {
		t.Errorf("the largest is %g, want beyond all bounds", got)
	}
	if got := largestBucket(after, after, "h"); got != 0 {
		t.Errorf("nothing was observed, and the largest is %g", got)
	}
}

// A soak judges the second half: caches fill during the first.
func TestFlat(t *testing.T) {
	t.Parallel()
	line := func(of func(x float64) float64) *grown {
		g := &grown{name: "g", slack: 4}
		for x := range 101 {
			g.seen = append(g.seen, [2]float64{float64(x), of(float64(x))})
		}
		return g
	}
	for name, c := range map[string]struct {
		of    func(float64) float64
		gains float64
		flat  bool
	}{
		"constant":          {func(float64) float64 { return 100 }, 0, true},
		"grows":             {func(x float64) float64 { return 100 + x }, 50, false},
		"grew":              {func(x float64) float64 { return 100 + min(x, 50) }, 0, true},
		"falls":             {func(x float64) float64 { return 200 - x }, -50, true},
		"little by share":   {func(x float64) float64 { return 1000 + x/2 }, 25, true},
		"little altogether": {func(x float64) float64 { return 10 + x/20 }, 2.5, true},
	} {
		gains, _, flat := line(c.of).flat()
		if flat != c.flat || math.Abs(gains-c.gains) > 0.01 {
			t.Errorf("%s: gains %g, flat %v; want %g and %v", name, gains, flat, c.gains, c.flat)
		}
	}
	if _, flat := soakTable([]*grown{{name: "nothing seen"}}); flat {
		t.Error("nothing was seen, and it is called flat")
	}
	if text, flat := soakTable([]*grown{line(func(x float64) float64 { return x })}); flat ||
		!strings.Contains(text, "**grows**") {
		t.Errorf("%v\n%s", flat, text)
	}
	mapped := line(func(x float64) float64 { return x })
	mapped.told = true
	if text, flat := soakTable([]*grown{mapped}); !flat || !strings.Contains(text, "not judged") {
		t.Errorf("%v\n%s", flat, text)
	}
	own := newGrown()[0]
	own.see(1, []sample{{metricSys: 3 << 20, metricReleased: 1 << 20}, {metricSys: 9 << 20, metricReleased: 8 << 20}})
	if own.seen[0][1] != 2 {
		t.Errorf("largest server: got %g MiB, want 2", own.seen[0][1])
	}
}

// Each limit that must hold under overload is a reason to fail.
func TestVerdict(t *testing.T) {
	t.Parallel()
	good := func() overloaded {
		return overloaded{cap: 10, memory: 100, peak: 1000, rate: 3000, rss: 50 << 20, equal: true,
			load: result{Jobs: 30_000, SubmitSeconds: 10, JobsPerS: 950, Refused: 20_000, Accepted: 10_000},
			held: result{Jobs: heldJobs, Completed: heldJobs}}
	}
	o := good()
	if text, holds := o.verdict(); !holds {
		t.Errorf("all is well, and judged not to be:\n%s", text)
	}
	for name, spoil := range map[string]func(*overloaded){
		"offered":    func(o *overloaded) { o.load.SubmitSeconds = 12 },
		"refused":    func(o *overloaded) { o.load.Refused = 0 },
		"delay":      func(o *overloaded) { o.load.RefusedHintless = 1 },
		"lost":       func(o *overloaded) { o.load.Lost = 1 },
		"twice":      func(o *overloaded) { o.held.Duplicated = 1 },
		"expired":    func(o *overloaded) { o.held.Reruns = 1 },
		"not held":   func(o *overloaded) { o.held.Completed-- },
		"memory":     func(o *overloaded) { o.rss = 101 << 20 },
		"throughput": func(o *overloaded) { o.load.JobsPerS = 899 },
		"digests":    func(o *overloaded) { o.equal = false },
	} {
		o := good()
		spoil(&o)
		if text, holds := o.verdict(); holds || strings.Count(text, "does not hold") != 1 {
			t.Errorf("%s: holds %v\n%s", name, holds, text)
		}
	}
}

// A picture is well-formed, whatever is on it, and its places are inside of it.
func TestChart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]chart{
		"curves": {title: "a < b & c", x: "x", y: "y", curves: []curve{{"p50", [][2]float64{{1, 5}, {1e6, 0.2}}},
			{"p99", [][2]float64{{10, 700}}}}},
		"log":   {logY: true, curves: []curve{{"p50", [][2]float64{{1, 5}, {1e6, 0}}}}},
		"time":  {linearX: true, curves: []curve{{"m", [][2]float64{{0, 0}, {3600, 123}}}}},
		"empty": {},
	} {
		text := c.svg()
		d := xml.NewDecoder(strings.NewReader(text))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
		}
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s: a place is not a number\n%s", name, text)
		}
	}
	a := newAxis([]float64{30, 4_000}, true, 0, 300)
	if len(a.ticks) != 4 || a.at(100) != 100 || a.at(10) != 0 || a.at(1e4) != 300 {
		t.Errorf("got %+v, want 10 to 10,000", a)
	}
	for most, want := range map[float64]float64{8_700: 2_000, 1: 0.2, 4: 1, 0: 1, 123: 20} {
		if got := niceStep(most); got != want {
			t.Errorf("steps to %g are of %g, want %g", most, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", 1_000: "1k", 250_000: "250k", 2e6: "2M"} {
		if got := amount(v); got != want {
			t.Errorf("%g is written %q, want %q", v, got, want)
		}
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	got := readTop(`File: rota
Duration: 10.1s, Total samples = 2.5s (24.7%)
      flat  flat%   sum%        cum   cum%
     0.29s 11.60% 11.60%      0.29s 11.60%  internal/runtime/syscall.Syscall6
         0     0% 11.60%      1.01s 40.40%  github.com/rotasched/rota/fsm.(*Machine).Apply (inline)
`)
	want := []spent{{"internal/runtime/syscall.Syscall6", 11.6, 11.6}, {"rota/fsm.(*Machine).Apply (inline)", 0, 40.4}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if text := profileTable(got, got[1:]); !strings.Contains(text,
		"| 11.6 | `internal/runtime/syscall.Syscall6` | 40.4 | `rota/fsm.(*Machine).Apply (inline)` |\n| 0.0 |") {
		t.Error(text)
	}
}

// A point that could not be measured in time is a row without figures, and is not on a curve.
func TestScaleTable(t *testing.T) {
	t.Parallel()
	p := &plan{rates: []int{500}}
	all := []point{
		{at: 1_000, fast: result{JobsPerS: 200, ServersCPUUs: 150}, open: result{E2EP50Ms: 2, E2EP99Ms: 9},
			rss: 64 << 20}, {at: 1_000_000, fast: result{JobsPerS: 150}},
		{at: 10_000_000, late: true},
	}
	got := p.scaleTable("pending jobs", all)
	for _, want := range []string{"| 1,000 | 200 | 1.00 | 150 | 2.0 | 9.0 | 64 |\n", "| 1,000,000 | 150 | 0.75 |",
		"| 10,000,000 | not within 5m0s |"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if c := curveOf("x", all, func(o *point) float64 { return o.fast.JobsPerS }); len(c.points) != 2 {
		t.Errorf("got %d points, want 2", len(c.points))
	}
}
