package sim

import (
	"flag"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
)

// less removes things from the lives that run, in the form in which TestSeeds prints a smaller life.
var less = flag.String("less", "",
	"what a life does without: seed=N,heal=MS,jobs=N,flows=N,workers=N,calm,no-ghosts,skip=A+B+…")

// maxShrink limits the lives tried in the search for a smaller failing one.
const maxShrink = 200

// live runs a whole life of faults, and then heals the world. A panic is a fault like any other, and must not end the
// search.
func live(o Options) (w *World, err error) {
	w = NewWorld(o)
	defer func() {
		if p := recover(); p != nil {
			w.audit.failf("it panicked: %v", p)
			err = w.audit.fault
		}
	}()
	w.Elect(w.nodes[0])
	w.Supervise()
	w.Break()
	if err := w.Run(o.Heal); err != nil {
		return w, err
	}
	err = w.Drain()
	return w, err
}

// liveOrTell runs a life; on failure it reports the fault and the smallest life that shows it.
func liveOrTell(t *testing.T, o Options) figures {
	t.Helper()
	if err := lessOf(&o, *less); err != nil {
		t.Fatal(err)
	}
	w, err := live(o)
	if err != nil {
		small, tried := shrink(o, w.audit.kind, maxShrink)
		test, _, _ := strings.Cut(t.Name(), "/")
		t.Fatalf("seed %d: %v\nthe smallest of %d lives that fail so: %s\nrepeat with: go test ./test/sim -run %s -seeds 1 -from %d -less '%s'",
			o.Seed, err, tried, tell(small), test, o.Seed, lessText(o, small))
	}
	return w.audit.figures
}

// shrink searches for a short life that fails with the same message, of this seed or of the next ones: any change makes
// the whole life a different one, so a neighbour is as good. Then it removes everything without which that life still
// fails: length, users, chance, and fault by fault; it starts over while anything can be removed.
func shrink(o Options, kind string, most int) (Options, int) {
	tried := 0
	fails := func(try Options) (int, bool) {
		if tried == most {
			return 0, false
		}
		tried++
		w, err := live(try)
		return len(w.faults), err != nil && w.audit.kind == kind
	}
	whole := o
	for heal := whole.Heal / 16; heal < whole.Heal && o.Heal == whole.Heal; heal *= 2 {
		for other := range uint64(16) {
			try := whole
			try.Heal, try.Jobs, try.Flows = heal, min(10, whole.Jobs), min(2, whole.Flows)
			if try.Seed += other; o.Heal == whole.Heal {
				if _, ok := fails(try); ok {
					o = try
				}
			}
		}
	}
	faults, _ := fails(o)
	for again := true; again; {
		again = false
		for _, take := range []func(*Options){
			func(o *Options) { o.Heal /= 2 },
			func(o *Options) { o.Heal -= o.Heal / 8 },
			func(o *Options) { o.Calm = true },
			func(o *Options) { o.Ghosts = false },
			func(o *Options) { o.Flows = 0 },
			func(o *Options) { o.Flows /= 2 },
			func(o *Options) { o.Jobs = 0 },
			func(o *Options) { o.Jobs /= 2 },
			func(o *Options) { o.Jobs = max(0, o.Jobs-1) },
			func(o *Options) { o.Workers = max(1, o.Workers-1) },
		} {
			try := o
			take(&try)
			if lessText(o, try) == "" {
				continue
			}
			if n, ok := fails(try); ok {
				o, faults, again = try, n, true
			}
		}
		for size := max(1, faults/2); size > 0; size /= 2 {
			for at := 0; at < faults; at += size {
				try := o
				try.Skip = map[int]bool{}
				for i := range o.Skip {
					try.Skip[i] = true
				}
				for i := at; i < min(at+size, faults); i++ {
					try.Skip[i] = true
				}
				if len(try.Skip) == len(o.Skip) {
					continue
				}
				if n, ok := fails(try); ok {
					o, faults, again = try, n, true
				}
			}
		}
	}
	return o, tried
}

// tell describes the rest of a life.
func tell(o Options) string {
	w, err := live(o)
	var left []string
	for i, f := range w.faults {
		if !o.Skip[i] {
			left = append(left, f)
		}
	}
	return fmt.Sprintf("%d jobs, %d workflows, %d workers, calm %v, ghosts %v, faults %q: %v", o.Jobs, o.Flows,
		o.Workers, o.Calm, o.Ghosts, left, err)
}

// lessText describes the parts of a that b lacks; lessOf removes them.
func lessText(a, b Options) string {
	var list []string
	if a.Seed != b.Seed {
		list = append(list, fmt.Sprintf("seed=%d", b.Seed))
	}
	for _, x := range []struct {
		name string
		a, b int64
	}{{"heal", int64(a.Heal), int64(b.Heal)}, {"jobs", int64(a.Jobs), int64(b.Jobs)},
		{"flows", int64(a.Flows), int64(b.Flows)},
		{"workers", int64(a.Workers), int64(b.Workers)}} {
		if x.a != x.b {
			list = append(list, fmt.Sprintf("%s=%d", x.name, x.b))
		}
	}
	if b.Calm && !a.Calm {
		list = append(list, "calm")
	}
	if a.Ghosts && !b.Ghosts {
		list = append(list, "no-ghosts")
	}
	var skip []string
	for i := range 10_000 {
		if b.Skip[i] && !a.Skip[i] {
			skip = append(skip, fmt.Sprint(i))
		}
	}
	if len(skip) > 0 {
		list = append(list, "skip="+strings.Join(skip, "+"))
	}
	return strings.Join(list, ",")
}

func lessOf(o *Options, text string) error {
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch name {
		case "":
			continue
		case "calm":
			o.Calm, err = true, nil
		case "no-ghosts":
			o.Ghosts, err = false, nil
		case "seed":
			o.Seed, err = strconv.ParseUint(value, 10, 64)
		case "heal":
			o.Heal = Time(n)
		case "jobs":
			o.Jobs = int(n)
		case "flows":
			o.Flows = int(n)
		case "workers":
			o.Workers = int(n)
		case "skip":
			o.Skip, err = map[int]bool{}, nil
			for s := range strings.SplitSeq(value, "+") {
				i, e := strconv.Atoi(s)
				if e != nil {
					err = e
				}
				o.Skip[i] = true
			}
		default:
			err = fmt.Errorf("no fault has the name %q", name)
		}
		if err != nil {
			return fmt.Errorf("-less %s: %w", part, err)
		}
	}
	return nil
}

// TestShrink plants a bug and checks that a smaller life shows it, and that its description reproduces it.
func TestShrink(t *testing.T) {
	t.Parallel()
	o := mixed(2)
	o.NoAckBy = true
	var w *World
	var err error
	for ; err == nil && o.Seed < 400; o.Seed++ {
		if w, err = live(o); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("the planted bug went unnoticed")
	}
	small, tried := shrink(o, w.audit.kind, 120)
	again := o
	if err := lessOf(&again, lessText(o, small)); err != nil || lessText(again, small) != "" {
		t.Fatalf("%q: got %v, and the rest of it is %q", lessText(o, small), err, lessText(again, small))
	}
	x, err := live(again)
	if err == nil || x.audit.kind != w.audit.kind {
		t.Fatalf("the smaller life reports %v, the life %v", err, w.audit.fault)
	}
	before, after := len(w.faults), len(x.faults)-len(again.Skip)
	if after >= before {
		t.Fatalf("%d faults became %d in %d lives", before, after, tried)
	}
	for i := range x.faults { // none that is left could be removed as well
		if again.Skip[i] {
			continue
		}
		try := again
		try.Skip = maps.Clone(again.Skip)
		if try.Skip == nil {
			try.Skip = map[int]bool{}
		}
		try.Skip[i] = true
		if y, err := live(try); err != nil && y.audit.kind == w.audit.kind {
			t.Errorf("fault %d of %d is left, and the smaller life fails without it", i, len(x.faults))
		}
	}
	t.Logf("%d faults became %d in %d lives: %s", before, after, tried, tell(small))
}
