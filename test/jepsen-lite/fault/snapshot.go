package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// saveSnapshot takes an online backup under load and inspects it.
func saveSnapshot(ctx context.Context, w *World, r *rand.Rand) blow {
	path := filepath.Join(w.Dir, fmt.Sprintf("backup-%08x", r.Uint32()))
	defer os.Remove(path)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	b := blow{targets: []string{"backup"}}
	if _, err := w.Cluster.run(ctx, "operator", "snapshot", "save", path, "--timeout", "15s"); err != nil {
		b.note = "not saved: " + check.Short(err.Error())
		return b
	}
	info, err := w.Cluster.run(context.WithoutCancel(ctx), "operator", "snapshot", "inspect", path, "-o", "json")
	if err != nil {
		b.note = "damaged: " + err.Error()
		w.Rec.With(func(h *check.History) {
			h.Damaged = append(h.Damaged, "backup taken under load is refused: "+check.Short(err.Error()))
		})
		return b
	}
	b.note = fmt.Sprintf("%d bytes of facts", len(info))
	return b
}
