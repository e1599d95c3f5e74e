package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	t.Parallel()
	p := &plan{repeat: 3, jobs: 20, rates: []int{5}, seconds: 2, payload: 7}
	fast := []result{{JobsPerS: 300, E2EP50Ms: 3}, {JobsPerS: 100, E2EP50Ms: 1}, {JobsPerS: 250, E2EP50Ms: 2}}
	paced := []result{{ServersCPUUs: 30}, {ServersCPUUs: 11}, {ServersCPUUs: 20}, {ServersCPUUs: 21}}
	got := table(p.loads(), [][]result{fast, paced})
	for _, want := range []string{
		"| median of 3 (least to most) | as fast as it goes | 5 jobs/s, open loop |\n|---|---:|---:|\n",
		"| jobs/s | 250 (100 to 300) | 0 (0 to 0) |\n",
		"| end to end, p50 ms | 2.0 (1.0 to 3.0) |",
		"| CPU of the servers, µs a job | 0 (0 to 0) | 20 (11 to 30) |\n", // 20.5, to even
		"; `rota bench jobs --jobs 20 --payload 7`; `rota bench jobs --jobs 10 --rate 5 --payload 7`. None lost",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// The ratio is that of pairs, not of medians.
func TestAgainstTable(t *testing.T) {
	t.Parallel()
	old := [][]result{{{JobsPerS: 100}, {JobsPerS: 200}, {JobsPerS: 400}}}
	now := [][]result{{{JobsPerS: 150}, {JobsPerS: 220}, {JobsPerS: 800}}}
	got := againstTable([]loadOf{{name: "l"}}, "before", "now", old, now)
	for _, want := range []string{"| load | median of 3 pairs | before | now | now ÷ before (least to most) |\n",
		"| l | jobs/s | 200 | 220 | 1.50 (1.10 to 2.00) |\n", "| l | end to end, p50 ms | 0.0 | 0.0 | not told |\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// The name of a process, which comes before the numbers, may look like some.
func TestTimesOf(t *testing.T) {
	t.Parallel()
	stat := "17 (a) b (1 2) S 16 17 17 0 -1 4194560 900 0 3 0 250 31 5 2 20 0 9 0 88 1 2"
	if got, err := timesOf(stat); err != nil || got != (times{parent: 16, ticks: 288}) {
		t.Errorf("got %+v, %v; want 288 ticks of a child of 16", got, err)
	}
	for _, bad := range []string{"", "17 (a) S 1 2 3", "17 (a) S 1 17 17 0 -1 4194560 900 0 3 0 x 31 0"} {
		if got, err := timesOf(bad); err == nil {
			t.Errorf("%q gives %+v and no error", bad, got)
		}
	}
}

// Repetitions end when another one would end too late; the first, which warms up, and one
// more are made in any case.
func TestRepeated(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		most time.Duration
		want int
	}{{0, 2}, {time.Hour, 4}} {
		p, turns := &plan{repeat: 3, most: one.most, begin: time.Now()}, 0
		if err := p.repeated(func(int) error { turns++; return nil }); err != nil || turns != one.want {
			t.Errorf("at most %s: got %d turns, %v; want %d", one.most, turns, err, one.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	if got, err := numbers("1, 20,300", 1); err != nil || !slices.Equal(got, []int{1, 20, 300}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "0", "1,,2", "1,-2", "x", "1 2", "1.5"} {
		if got, err := numbers(bad, 1); err == nil {
			t.Errorf("%q is accepted as %v", bad, got)
		}
	}
}

func TestReplaceBetween(t *testing.T) {
	t.Parallel()
	begin, end := marks("bench")
	for _, one := range []struct{ name, before, after string }{
		{"replaced", "a\n" + begin + "old\n" + end + "z\n", "a\n" + begin + "new\n" + end + "z\n"},
		{"empty", begin + end, begin + "new\n" + end},
		{"no_begin", "a\n" + end, ""},
		{"no_end", begin + "a\n", ""},
		{"wrong_order", end + begin, ""},
		{"twice", begin + end + begin + end, ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "page.md")
			if err := os.WriteFile(path, []byte(one.before), 0o600); err != nil {
				t.Fatal(err)
			}
			err := replaceBetween(path, "bench", "new\n")
			got, _ := os.ReadFile(path)
			switch {
			case one.after == "" && (err == nil || string(got) != one.before):
				t.Errorf("taken, or changed nevertheless: %v, %q", err, got)
			case one.after != "" && (err != nil || string(got) != one.after):
				t.Errorf("%v, %q", err, got)
			}
		})
	}
}

// A server that ends at once is reported with its output, and leaves nothing behind.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fake := filepath.Join(t.TempDir(), "rota")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho no such flag >&2\nexit 2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := startServers(ctx, fake, t.TempDir(), 1, nil); err == nil ||
		!strings.Contains(err.Error(), "no such flag") {
		t.Errorf("%v", err)
	}
}

// Measurements for which goals name 1,000,000 pending jobs do not use more of them.
func TestBigPending(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		pending []int
		want    int
	}{{[]int{1_000, 1_000_000, 2_000_000}, 1_000_000}, {[]int{1_000, 5_000}, 5_000}, {[]int{2_000_000, 3_000_000},
		2_000_000}} {
		p := &plan{scale: scalePlan{pending: one.pending}}
		if got := p.bigPending(); got != one.want {
			t.Errorf("%v: %d, not %d", one.pending, got, one.want)
		}
	}
}

// A bench that lost a job is a fault, not a figure.
func TestMeasureFault(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ says, want string }{
		{`{"jobs_per_s": 5, "lost": 1}`, "1 jobs were lost"},
		{`{"jobs_per_s": 5, "duplicated": 2}`, "2 done twice"},
		{`nonsense`, "output of "},
	} {
		fake := filepath.Join(t.TempDir(), "rota")
		if err := os.WriteFile(fake, []byte("#!/bin/sh\necho '"+one.says+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		p := &plan{rota: fake}
		if _, err := p.measure(t.Context(), fake, &servers{}, p.closed()); err == nil ||
			!strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v", one.says, err)
		}
	}
}

// The table has a row for each layout and round trip.
func TestRegionsTable(t *testing.T) {
	t.Parallel()
	p := &plan{jobs: 20, seconds: 2, payload: 7}
	got := p.regionsTable([]regionFigures{{layout: "two", rtt: 40,
		near: result{SubmitP50Ms: 1, SubmitP99Ms: 2, E2EP50Ms: 3}, far: result{SubmitP50Ms: 4},
		closed: result{JobsPerS: 5}, elections: 1, failovers: []float64{6, 7, 9}}})
	for _, want := range []string{"| two | 40 ms | 1.0, 2.0 ms | 4.0 ms | 3.0 ms | 5 | 7 (6 to 9) ms |\n",
		"unasked meanwhile: 1.", "--rate 200"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
