package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
)

// transferLeadership hands leadership to a drawn node, or wherever the leader
// likes; a few times in a row, so that leaders flap.
func transferLeadership(ctx context.Context, w *world, r *rand.Rand) blow {
	b := blow{targets: []string{"leadership"}}
	for range 1 + r.IntN(3) {
		to, ask := w.someone(r), w.someone(r)
		id := rota.NodeID(to.id)
		if r.IntN(3) == 0 {
			id = ""
		}
		try, cancel := context.WithTimeout(ctx, 4*time.Second)
		leader, err := ask.c.TransferLeadership(try, id)
		cancel()
		if err != nil {
			b.note += "refused: " + short(err.Error()) + "; "
		} else {
			b.note += "to " + string(leader) + "; "
		}
	}
	return b
}
