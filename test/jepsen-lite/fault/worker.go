package fault

import (
	"context"
	"math/rand/v2"
)

// killWorker ends a worker process; the next one is another worker, or the same
// with the same secret, which gets the open leases back.
func killWorker(_ context.Context, w *World, r *rand.Rand) blow {
	h := w.Hands[r.IntN(len(w.Hands))]
	same := r.IntN(2) == 0
	h.kill()
	return blow{targets: []string{h.Name}, note: map[bool]string{true: "comes back", false: "is replaced"}[same],
		mend: func() error {
			if !same {
				h.Renew()
			}
			return h.Start()
		}}
}

// pauseWorker stops a worker process in mid-step, past its deadlines perhaps.
func pauseWorker(_ context.Context, w *World, r *rand.Rand) blow {
	h := w.Hands[r.IntN(len(w.Hands))]
	release, err := h.hold()
	if err != nil {
		return blow{}
	}
	return blow{targets: []string{h.Name}, mend: func() error { release(); return nil }}
}
