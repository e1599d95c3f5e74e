package main

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// sound returns the record of a run of 60 s that keeps every limit and uses all of it.
func sound() record {
	r := record{Limits: standard, Has: map[kind]bool{short: true, long: true, costly: true}, Largest: 500, Drained: true,
		Hot:  map[string]kind{"s": short, "l": long, "c": costly},
		Calm: span{10 * time.Second, 25 * time.Second}, After: span{40 * time.Second, 55 * time.Second}}
	add := func(key string, every, last time.Duration, units int) {
		for at := time.Duration(0); at < time.Minute; at += every {
			id := fmt.Sprintf("%s.%d", key, at/every)
			r.Calls = append(r.Calls, call{Key: key, Job: id, Worker: "w1", Units: units, Start: at, End: at + last})
			r.Acked = append(r.Acked, id)
		}
	}
	add("s", time.Second/50, 20*time.Millisecond, 1)
	add("l", time.Second/2, 1500*time.Millisecond, 1)
	add("c", 300*time.Millisecond, 200*time.Millisecond, 500)
	return r
}

// extra adds calls with acknowledged jobs of their own.
func (r *record) extra(key string, n int, at, last time.Duration, units int) {
	for i := range n {
		id := fmt.Sprintf("%s.extra.%s.%d", key, at, i)
		r.Calls = append(r.Calls, call{Key: key, Job: id, Worker: "w1", Units: units, Start: at, End: at + last})
		r.Acked = append(r.Acked, id)
	}
}

// without removes the calls of a key that start in a span, and every n-th one only; their jobs count as not submitted.
func (r *record) without(key string, s span, nth int) {
	n := 0
	gone := make(map[string]bool)
	r.Calls = slices.DeleteFunc(r.Calls, func(c call) bool {
		if c.Key != key || c.Start < s.From || c.Start >= s.To {
			return false
		}
		n++
		gone[c.Job] = n%nth == 0
		return n%nth == 0
	})
	r.Acked = slices.DeleteFunc(r.Acked, func(id string) bool { return gone[id] })
}

// of returns a call of a job.
func (r *record) of(job string) call {
	return r.Calls[slices.IndexFunc(r.Calls, func(c call) bool { return c.Job == job })]
}

// again adds a second call of a job by another worker.
func (r *record) again(job string, start, end time.Duration) {
	c := r.of(job)
	c.Worker, c.Start, c.End = "w2", start, end
	r.Calls = append(r.Calls, c)
}

// verdict returns the figures that are not 0, by name.
func verdict(f figures) map[string]float64 {
	all := map[string]float64{"concurrency": f.Concurrency.Over, "starts1": f.Starts1.Over, "starts10": f.Starts10.Over, "starts60": f.Starts60.Over,
		"units10": f.Units10.Over, "units60": f.Units60.Over, "unused starts": f.Unused[short],
		"unused concurrency": f.Unused[long], "unused units": f.Unused[costly], "lost": float64(f.Lost), "waiting": float64(f.Waiting),
		"twice": float64(f.Twice), "overlapping": float64(f.Overlapping), "explained": float64(f.Explained)}
	maps.DeleteFunc(all, func(_ string, v float64) bool { return v == 0 })
	return all
}

func TestJudge(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	w1Out := func(r *record, from, to time.Duration) { r.Outages = []outage{{"w1", span{from, to}}} }
	for name, test := range map[string]struct {
		plant func(r *record)
		want  map[string]float64
	}{
		"sound": {func(*record) {}, nil},
		// Three calls are in flight at any time: a fourth one is one too many, from 30.0 s on.
		"one call more at a time": {func(r *record) { r.extra("l", 1, 30*s+200*ms, 100*ms, 1) },
			map[string]float64{"concurrency": 1}},
		"a call begins as another ends": {func(r *record) { r.extra("x", 3, 30*s, s, 1); r.extra("x", 3, 31*s, s, 1) },
			nil},
		// A window of 1 s holds 51 calls of the steady rate. The limit is 50*(1+0.25)+50 = 112.5: 40 more keep it, 70 do not.
		"a burst":           {func(r *record) { r.extra("s", 40, 30*s+5*ms, 0, 1) }, nil},
		"a burst too large": {func(r *record) { r.extra("s", 70, 30*s+5*ms, 0, 1) }, map[string]float64{"starts1": 8.5, "starts10": 8.5, "starts60": 7.5}},
		// 7 calls more in each of ten seconds exceed a window of 10 s: 501+70 against 562.5.
		"a rate too high": {func(r *record) {
			for i := range 10 {
				r.extra("s", 7, 30*s+time.Duration(i)*s+5*ms, 0, 1)
			}
		}, map[string]float64{"starts10": 8.5, "starts60": 7.5}},
		"starts in a minute": {func(r *record) {
			for i := range 6 {
				r.extra("s", 12, time.Duration(10*i)*s+5*ms, 0, 1)
			}
		}, map[string]float64{"starts60": 9.5}},
		"limits per minute": {func(r *record) {
			r.PerMinute = true
			r.extra("s", 60, 30*s+5*ms, 0, 1)
			r.extra("c", 1, 30*s+250*ms, 0, 19_000)
			r.without("s", r.After, 9)
		}, nil},
		"units in 10 s": {func(r *record) { r.extra("c", 1, 30*s+250*ms, 0, 25_000) }, map[string]float64{"units10": 4917, "units60": 4583}},
		"units in a minute": {func(r *record) {
			for i := range 6 {
				r.extra("c", 1, time.Duration(10*i)*s+250*ms, 0, 4000)
			}
		}, map[string]float64{"units60": 3583}},
		"starts left unused":      {func(r *record) { r.without("s", r.After, 5) }, map[string]float64{"unused starts": 0.2}},
		"starts within tolerance": {func(r *record) { r.without("s", r.After, 25) }, nil},
		"starts unused before too": {func(r *record) { r.without("s", span{0, time.Hour}, 5) },
			nil},
		"concurrency left unused": {func(r *record) { r.without("l", span{38 * s, 55 * s}, 3) },
			map[string]float64{"unused concurrency": 1.0 / 3}},
		"units left unused": {func(r *record) { r.without("c", r.After, 2) }, map[string]float64{"unused units": 0.5}},
		"lost":              {func(r *record) { r.Acked = append(r.Acked, "s.lost") }, map[string]float64{"lost": 1}},
		"still waiting": {func(r *record) { r.Acked, r.Drained = append(r.Acked, "s.lost"), false },
			map[string]float64{"waiting": 1}},
		"called, not acknowledged": {func(r *record) {
			r.Calls = append(r.Calls, call{Key: "x", Job: "x.1", Start: s, End: s})
		}, nil},
		"twice": {func(r *record) { r.again("c.0", 59*s, 59*s) }, map[string]float64{"twice": 1}},
		"overlapping": {func(r *record) { r.again("c.0", 100*ms, 300*ms) },
			map[string]float64{"twice": 1, "overlapping": 1}},
		"overlapping an outage": {func(r *record) { r.again("c.0", 100*ms, 300*ms); w1Out(r, 50*ms, s) },
			map[string]float64{"twice": 1, "overlapping": 1}},
		"explained by a death": {func(r *record) { r.again("c.0", 59*s, 59*s); w1Out(r, 100*ms, time.Hour) },
			map[string]float64{"explained": 1}},
		"explained by a lost report": {func(r *record) { r.again("c.0", 59*s, 59*s); w1Out(r, 1100*ms, time.Hour) },
			map[string]float64{"explained": 1}},
		"reported long before the death": {func(r *record) { r.again("c.0", 59*s, 59*s); w1Out(r, 1300*ms, time.Hour) },
			map[string]float64{"twice": 1}},
		"another worker died": {func(r *record) { r.again("c.0", 59*s, 59*s); r.Outages = []outage{{"w3", span{0, time.Hour}}} },
			map[string]float64{"twice": 1}},
	} {
		r := sound()
		test.plant(&r)
		f := judge(r)
		got := verdict(f)
		if !maps.EqualFunc(got, test.want, func(a, b float64) bool { return a > b-0.6 && a < b+0.6 && (b >= 1 || a < b+0.03 && a > b-0.03) }) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
		if f.clean() == (len(test.want) > 0 && test.want["explained"]+test.want["waiting"] == 0) {
			t.Errorf("%s: clean is %v, the figures are %v", name, f.clean(), got)
		}
	}
}

// TestJudge_missingLimit checks that a limit that a system does not offer is not judged.
func TestJudge_missingLimit(t *testing.T) {
	r := sound()
	r.extra("s", 500, 30*time.Second, 0, 1)
	r.extra("l", 500, 30*time.Second, time.Second, 1)
	r.extra("c", 500, 30*time.Second, 0, 500)
	r.without("s", r.After, 2)
	if got := verdict(judge(r)); len(got) < 6 {
		t.Errorf("with all limits: got %v, want more", got)
	}
	r.Has = map[kind]bool{}
	if got := verdict(judge(r)); len(got) != 0 {
		t.Errorf("without limits: got %v, want none", got)
	}
}

// TestProvider checks what the provider records: times, amounts spent, and the first calls of jobs.
func TestProvider(t *testing.T) {
	p, err := newProvider()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	t.Setenv("LIMITS_PROVIDER", p.address)
	t.Setenv("LIMITS_WORKER", "w7")
	for range 2 {
		spent, err := callProvider(t.Context(), job{ID: "k.1", Key: "k", Units: 100, Ms: 1})
		if err != nil || spent < 70 || spent > 100 {
			t.Fatalf("got %d, %v, want 70 to 100 units", spent, err)
		}
	}
	calls := p.all()
	if len(calls) != 2 || p.startedOf("k") != 1 || !p.called("k.1") || p.called("k.2") {
		t.Errorf("got %v, %d jobs started", calls, p.startedOf("k"))
	}
	if c := calls[0]; c.Worker != "w7" || c.Open || c.End-c.Start < time.Millisecond {
		t.Errorf("got %+v", c)
	}
}
