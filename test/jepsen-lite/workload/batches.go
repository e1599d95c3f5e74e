package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// maxBatch bounds the jobs of a batch of the run.
const maxBatch = 8

// openBatches opens batches, submits their jobs, some of which fail for good or are cancelled, and seals those that no
// size seals.
func openBatches(ctx, drain context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("batches-%d", r.IntN(1_000_000))
	for n := 0; ctx.Err() == nil && !w.Rec.Full(); n++ {
		w.oneBatch(drain, r, name, n)
		if !fault.Rest(ctx, time.Duration(200+r.IntN(800))*time.Millisecond) {
			return
		}
	}
}

func (w *trial) oneBatch(ctx context.Context, r *rand.Rand, name string, n int) {
	f := check.BatchFacts{ID: fmt.Sprintf("%s-%d", name, n), At: w.Rec.Now()}
	jobs := make([]rota.JobSpec, r.IntN(maxBatch+1))
	for i := range jobs {
		jobs[i] = newKeyed(fmt.Sprintf("c%d-%s-%d", w.Options.Seed, f.ID, i), r)
		jobs[i].Batch = rota.BatchID(f.ID)
		if r.IntN(4) == 0 {
			jobs[i].Queue, jobs[i].Payload = "flaky", jobPlan{Ms: r.IntN(400), Fail: 300, NoRetry: 100,
				Cancel: 50}.payload()
		}
		f.Jobs = append(f.Jobs, string(jobs[i].ID))
	}
	if r.IntN(2) == 0 {
		f.Size = int64(max(1, len(jobs)-r.IntN(2))) // of more jobs than that some are refused
	}
	at := 0
	w.Rec.With(func(h *check.History) { at, h.Batches = len(h.Batches), append(h.Batches, f) })
	note := func(f func(*check.BatchFacts)) { w.Rec.With(func(h *check.History) { f(&h.Batches[at]) }) }
	spec := rota.BatchSpec{ID: rota.BatchID(f.ID), Size: f.Size,
		Callback: rota.NewJobSpec("callback", jobPlan{Ms: r.IntN(50)}.payload())}
	spec.Callback.Queue, spec.Callback.Tenant = "quick", "t-free"
	op := check.Op{Process: name, Func: "batch_open", Text: f.ID}
	if w.insist(ctx, r, op, func(ctx context.Context, c *client.Client, _ *check.Op) error {
		_, err := client.BatchesOf(c).Open(ctx, spec)
		return err
	}) != check.OK {
		return
	}
	note(func(f *check.BatchFacts) { f.Opened = true })
	left := 0
	if len(jobs) > 0 {
		left = len(submitAll(ctx, w, r, name, jobs))
		if r.IntN(3) == 0 {
			cancelOne(ctx, w, r, name, f.Jobs[r.IntN(len(f.Jobs))])
		}
	}
	if f.Size > 0 && int64(len(jobs)-left) >= f.Size && r.IntN(3) > 0 {
		return
	}
	op.Func = "batch_seal"
	if w.insistOnRoom(ctx, r, op, func(ctx context.Context, c *client.Client, _ *check.Op) error {
		_, err := client.BatchesOf(c).Seal(ctx, spec.ID)
		return err
	}) == check.OK {
		note(func(f *check.BatchFacts) { f.Sealed = true })
	}
}

// readBatches reads every batch of the run and its callback.
func (w *trial) readBatches(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, w.patience(maxList))
	defer cancel()
	var facts []check.BatchFacts
	w.Rec.With(func(h *check.History) { facts = append(facts, h.Batches...) })
	for i := range facts {
		f := &facts[i]
		b, err := client.BatchesOf(c).Get(ctx, rota.BatchID(f.ID))
		if rota.KindOf(err) == rota.KindNotFound {
			continue
		}
		if err != nil {
			return fmt.Errorf("read batch %s: %w", f.ID, err)
		}
		f.Shown = &b
		callback, err := c.Job(ctx, rota.CallbackID(b.ID))
		if err != nil && rota.KindOf(err) != rota.KindNotFound {
			return fmt.Errorf("read the callback of batch %s: %w", f.ID, err)
		}
		f.Labels = callback.Labels
	}
	w.Rec.With(func(h *check.History) { copy(h.Batches, facts) })
	return errors.Join(ctx.Err())
}
