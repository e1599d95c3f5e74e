package sched

import (
	"slices"
	"testing"

	"github.com/rotasched/rota"
)

func took(ms ...int64) (list []Took) {
	for _, m := range ms {
		list = Learn(list, Took{Ms: m})
	}
	return list
}

func TestForetell(t *testing.T) {
	t.Parallel()
	parts := []Took{{Ms: 50, Said: 100}, {Ms: 5, Said: 100}, {Ms: 7, Said: 0}, {Ms: 300, Said: 400},
		{Ms: 100, Said: 1000}}
	for _, c := range []struct {
		name string
		by   rota.EstimateBy
		list []Took
		said int64
		want int64
	}{
		{"nothing ended yet", rota.EstimateLast2, nil, 50, 0},
		{"one is all there is", rota.EstimateLast2, took(9), 0, 9},
		{"the last two of three", rota.EstimateLast2, took(1000, 10, 21), 0, 15},
		{"at most the submitter's value", rota.EstimateLast2, took(1000, 2000), 700, 700},
		{"a quarter of what it was off by", rota.EstimateEMA, took(100, 200, 25), 0, 100},
		{"a mean, at most the submitter's value", rota.EstimateEMA, took(100, 200), 3, 3},
		{"the third of four", rota.EstimateQuantile, took(40, 10, 30, 20), 0, 30},
		{"of three the third", rota.EstimateQuantile, took(3, 2, 1), 0, 3},
		{"by parts of the submitter's values", rota.EstimateQuantile, parts, 1000, 500},
		{"as long as the submitter's value", rota.EstimateQuantile, []Took{{Ms: 77, Said: 77}}, 12345, 12345},
		{"no submitter gave a value", rota.EstimateQuantile, took(10, 20), 1000, 20},
		{"no value is given now", rota.EstimateQuantile, parts, 0, 100},
		{"1 at least", rota.EstimateQuantile, []Took{{Ms: 1, Said: 1000}}, 10, 1},
	} {
		if got := Foretell(c.by, c.list, c.said); got != c.want {
			t.Errorf("%s: %s is %d, want %d", c.name, c.by, got, c.want)
		}
	}
}

func TestLearn(t *testing.T) {
	t.Parallel()
	var list []Took
	for i := range int64(MaxTook + 3) {
		before := slices.Clone(list)
		kept := list
		list = Learn(list, Took{Ms: i})
		if !slices.Equal(kept, before) {
			t.Fatal("the older list changed")
		}
	}
	if len(list) != MaxTook || list[0].Ms != 3 || list[MaxTook-1].Ms != MaxTook+2 {
		t.Errorf("%v is remembered", list)
	}
	if got := Learn(nil, Took{}); got[0].Ms != 1 {
		t.Errorf("a run of no time is %v", got)
	}
}

// TestRun_corrected lets a run outlive one estimate after the other.
func TestRun_corrected(t *testing.T) {
	t.Parallel()
	r := Run{End: 110, Began: 100, Most: 175}
	for now, want := range map[rota.Clock]rota.Clock{100: 110, 109: 110, 110: 120, 119: 120, 120: 140, 139: 140,
		140: 175, 174: 175, 175: 110, 200: 110} {
		if got := r.corrected(now); got != want {
			t.Errorf("at %d it should end at %d, want %d", now, got, want)
		}
	}
	if got := (Run{End: 110}).corrected(300); got != 110 {
		t.Errorf("one whose estimate is set should end at %d", got)
	}
	s := Supply{runs: [][]Run{{r, {End: 115}, {End: 130}}}}
	if got := s.runsAt(0, 112); got[0].End != 115 || got[1].End != 120 || got[2].End != 130 || s.runs[0][0] != r {
		t.Errorf("%v end, of %v", got, s.runs[0])
	}
}

// TestBackfill_corrected checks that room for the first job is reserved by the second estimate of a run that has
// outlived its first.
func TestBackfill_corrected(t *testing.T) {
	t.Parallel()
	y := newYard(func(p *rota.QueuePolicy) { p.Estimate = rota.EstimateLast2 })
	y.worker("w", 10, 20, Run{End: yardNow - 5, Load: Load{CPU: 6}, Began: yardNow - 15, Most: yardNow + 1000})
	y.job(8, 9)
	y.job(4, 6)
	y.job(4, 5)
	d, pairs := y.decide()
	if kept := d.Reservations(); len(kept) != 1 || kept[0].Until != yardNow+5 {
		t.Errorf("%+v is reserved, want until %d", kept, yardNow+5)
	}
	if got := idsOf(pairs); !slices.Equal(got, []string{"q02"}) {
		t.Errorf("%v start", got)
	}
}

func TestPartOf(t *testing.T) {
	t.Parallel()
	s := NewSupply()
	put := func(id rota.WorkerID, active bool) {
		s.Put(WorkerEntry{Spec: &rota.WorkerSpec{ID: id, Slots: 10, CPUMilli: 1500, MemoryBytes: 1 << 62},
			Active: active})
	}
	if got := s.PartOf(Load{}); got != million {
		t.Errorf("of nothing a job takes %d", got)
	}
	put("a", true)
	put("b", true)
	put("c", false)
	for _, c := range []struct {
		Load
		want int64
	}{{Load{}, 50_000}, {Load{CPU: 100}, 50_000}, {Load{CPU: 1000}, 333_334}, {Load{CPU: 3000},
		million}, {Load{CPU: 9000}, million}, {Load{IO: 1}, million}} {
		if got := s.PartOf(c.Load); got != c.want {
			t.Errorf("%+v is %d millionths, want %d", c.Load, got, c.want)
		}
	}
	put("b", false)
	s.Remove("c")
	if got := s.PartOf(Load{}); got != 100_000 {
		t.Errorf("of one worker it takes %d", got)
	}
	s.Remove("a")
	if got := s.PartOf(Load{}); got != million || s.all != (capacity{}) {
		t.Errorf("of none it takes %d, %+v are left", got, s.all)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	for _, c := range [][3]int64{{1000, 0, 1000}, {1000, 500_000, 500}, {1, 1, 1}, {longestRun, million, longestRun}} {
		if got := Weighed(c[0], c[1]); got != c[2] {
			t.Errorf("%d for %d millionths is %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
