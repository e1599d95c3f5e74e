package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

func someNemeses(n int) (can []nemesis) {
	for i := range n {
		can = append(can, nemesis{name: fmt.Sprint("n", i), weight: 1 + i})
	}
	return can
}

// TestPlanCoversPairs: before a pair is struck twice, all with that nemesis were.
func TestPlanCoversPairs(t *testing.T) {
	t.Parallel()
	p, r, can := newPlan(), rand.New(rand.NewPCG(1, 1)), someNemeses(12)
	for range 12 * 12 {
		other := can[r.IntN(len(can))].name
		p.partner(other, can, r)
		least, most := 1<<30, 0
		for _, n := range can {
			struck := p.struck[check.PairOf(n.name, other)]
			least, most = min(least, struck), max(most, struck)
		}
		if most > least+13 { // a pair is struck for either of its two
			t.Fatalf("pairs with %s were struck %d to %d times", other, least, most)
		}
	}
	if len(p.struck) < 12*13/2 {
		t.Errorf("%d pairs of %d were struck", len(p.struck), 12*13/2)
	}
}

func TestPlanIsTheSeeds(t *testing.T) {
	t.Parallel()
	draw := func() (names string) {
		p, r := newPlan(), rand.New(rand.NewPCG(7, 7))
		for i := range 50 {
			names += p.partner(fmt.Sprint("n", i%5), someNemeses(5), r).name
		}
		return names
	}
	if a, b := draw(), draw(); a != b {
		t.Errorf("%s and %s", a, b)
	}
}

func TestPlanSparesData(t *testing.T) {
	t.Parallel()
	p, r := newPlan(), rand.New(rand.NewPCG(1, 1))
	can := []nemesis{{name: "bit-rot", weight: 100}, {name: "kill-one", weight: 1}}
	for range 20 {
		if n := p.partner("bit-rot", can, r); n.name != "kill-one" {
			t.Fatalf("%s strikes next to bit-rot", n.name)
		}
	}
	if n := p.partner("bit-rot", can[:1], r); n.strike != nil || n.name != "" {
		t.Errorf("%s strikes next to bit-rot, as there is no other", n.name)
	}
}

func TestPlanAwaits(t *testing.T) {
	t.Parallel()
	p := newPlan()
	came := make(chan string)
	go func() { came <- p.await(t.Context()) }()
	p.begin(1, "not the first lane")
	p.begin(0, "pause-one")
	if name := <-came; name != "pause-one" {
		t.Errorf("%q", name)
	}
	p.begin(0, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if name := p.await(ctx); name != "" {
		t.Errorf("%q is still active", name)
	}
}
