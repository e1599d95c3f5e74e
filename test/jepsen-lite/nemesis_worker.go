package main

import (
	"context"
	"math/rand/v2"
)

// killWorker ends a worker process; the next one is another worker, or the same
// with the same secret, which gets the open leases back.
func killWorker(_ context.Context, w *world, r *rand.Rand) blow {
	h := w.hands[r.IntN(len(w.hands))]
	same := r.IntN(2) == 0
	h.kill()
	return blow{targets: []string{h.name}, note: map[bool]string{true: "comes back", false: "is replaced"}[same],
		mend: func() error {
			if !same {
				h.renew()
			}
			return h.start()
		}}
}

// pauseWorker stops a worker process in mid-step, past its deadlines perhaps.
func pauseWorker(_ context.Context, w *world, r *rand.Rand) blow {
	h := w.hands[r.IntN(len(w.hands))]
	release, err := h.hold()
	if err != nil {
		return blow{}
	}
	return blow{targets: []string{h.name}, mend: func() error { release(); return nil }}
}
