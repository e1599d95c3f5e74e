package workload

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// logsRead is the number of attempts whose log is read at each node.
const logsRead = 25

// readJobLogs reads the logs of some handlers at every node separately.
func (w *trial) readJobLogs(ctx context.Context, nodes []*fault.Server) {
	ctx, cancel := context.WithTimeout(ctx, w.patience(maxList))
	defer cancel()
	var logged []check.LoggedLease
	w.Rec.With(func(h *check.History) { logged = h.Logged() })
	r := rand.New(rand.NewPCG(w.Options.Seed, 31_000))
	r.Shuffle(len(logged), func(i, k int) { logged[i], logged[k] = logged[k], logged[i] })
	var reads []check.LogRead
	for _, l := range logged[:min(len(logged), logsRead)] {
		of := rota.LogOf{Job: rota.JobID(l.Job)}
		if err := of.Lease.UnmarshalText([]byte(l.Lease)); err != nil {
			w.Rec.Note("lease %s: %v", l.Lease, err)
			continue
		}
		for _, s := range nodes {
			read := check.LogRead{Node: s.ID, Job: l.Job, Lease: l.Lease, Lines: l.Lines}
			for {
				log, err := client.JobLog(ctx, s.Client, of)
				if rota.KindOf(err) == rota.KindUnavailable && fault.Rest(ctx, 200*time.Millisecond) {
					continue
				}
				read.Read(&log, err)
				break
			}
			reads = append(reads, read)
		}
	}
	w.Rec.Note("%d logs of attempts were read", len(reads))
	w.Rec.With(func(h *check.History) { h.JobLogs = reads })
}
