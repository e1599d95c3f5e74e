package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// saveSnapshot takes an online backup under load and inspects it.
func saveSnapshot(ctx context.Context, w *world, r *rand.Rand) blow {
	path := filepath.Join(w.dir, fmt.Sprintf("backup-%08x", r.Uint32()))
	defer os.Remove(path)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	b := blow{targets: []string{"backup"}}
	if _, err := w.cluster.run(ctx, "operator", "snapshot", "save", path, "--timeout", "15s"); err != nil {
		b.note = "not saved: " + short(err.Error())
		return b
	}
	info, err := w.cluster.run(context.WithoutCancel(ctx), "operator", "snapshot", "inspect", path, "-o", "json")
	if err != nil {
		b.note = "damaged: " + err.Error()
		w.rec.with(func(h *History) {
			h.Damaged = append(h.Damaged, "backup taken under load is refused: "+short(err.Error()))
		})
		return b
	}
	b.note = fmt.Sprintf("%d bytes of facts", len(info))
	return b
}
