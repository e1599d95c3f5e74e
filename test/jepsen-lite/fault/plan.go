package fault

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// ruinous nemeses destroy data that nodes have stored. Two at once might destroy a majority's, which no system can
// promise to survive.
var ruinous = []string{"bit-rot"}

// plan makes the lanes strike all pairs of nemeses, and not only those that chance brings together. The first lane
// draws by weight, from the seed alone. The others wait until it is active, and choose a partner for its current
// nemesis; as far as that depends on how long strikes take, the seed does not determine it.
type plan struct {
	mu      sync.Mutex
	at      [lanes]string
	changed chan struct{}
	struck  map[check.Pair]int
}

func newPlan() *plan { return &plan{changed: make(chan struct{}), struck: make(map[check.Pair]int)} }

// maxPartner is how long a lane waits for another to be active before it strikes alone.
const maxPartner = 6 * time.Second

// begin records the current nemesis of a lane, "" for none.
func (p *plan) begin(lane int, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[lane] = name
	close(p.changed)
	p.changed = make(chan struct{})
}

// await returns the current nemesis of the first lane, "" if it had none for long.
func (p *plan) await(ctx context.Context) string {
	patience := time.NewTimer(maxPartner)
	defer patience.Stop()
	for {
		p.mu.Lock()
		other, changed := p.at[0], p.changed
		p.mu.Unlock()
		if other != "" {
			return other
		}
		select {
		case <-changed:
		case <-patience.C:
			return ""
		case <-ctx.Done():
			return ""
		}
	}
}

// partner draws one of those whose pair with the other was struck least, and counts it: one that cannot strike now is
// drawn again only after all others had their turn.
func (p *plan) partner(other string, can []nemesis, r *rand.Rand) nemesis {
	p.mu.Lock()
	defer p.mu.Unlock()
	can = slices.DeleteFunc(slices.Clone(can), func(n nemesis) bool {
		return slices.Contains(ruinous, n.name) && slices.Contains(ruinous, other)
	})
	if len(can) == 0 {
		return nemesis{}
	}
	least := slices.MinFunc(can, func(a, b nemesis) int {
		return p.struck[check.PairOf(a.name, other)] - p.struck[check.PairOf(b.name, other)]
	})
	fewest := p.struck[check.PairOf(least.name, other)]
	can = slices.DeleteFunc(can, func(n nemesis) bool { return p.struck[check.PairOf(n.name, other)] > fewest })
	chosen := drawByWeight(can, r)
	p.struck[check.PairOf(chosen.name, other)]++
	return chosen
}

// drawByWeight draws one by its weight.
func drawByWeight(can []nemesis, r *rand.Rand) nemesis {
	if len(can) == 0 {
		return nemesis{}
	}
	total := 0
	for _, n := range can {
		total += n.weight
	}
	at := r.IntN(total)
	for _, n := range can {
		if at -= n.weight; at < 0 {
			return n
		}
	}
	return can[0]
}
