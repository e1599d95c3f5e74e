package fault

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// transferLeadership hands leadership to a drawn node, or to one of the leader's choice; a few times in a row, so that
// leaders flap.
func transferLeadership(ctx context.Context, w *World, r *rand.Rand) blow {
	b := blow{targets: []string{"leadership"}}
	for range 1 + r.IntN(3) {
		to, ask := w.Someone(r), w.Someone(r)
		id := rota.NodeID(to.ID)
		if r.IntN(3) == 0 {
			id = ""
		}
		try, cancel := context.WithTimeout(ctx, 4*time.Second)
		leader, err := ask.Client.TransferLeadership(try, id)
		cancel()
		if err != nil {
			b.note += "refused: " + check.Short(err.Error()) + "; "
		} else {
			b.note += "to " + string(leader) + "; "
		}
	}
	return b
}
