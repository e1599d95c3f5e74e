package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// operate plays an operator with an unsteady hand: modes, tenants' weights, the ranking of a queue and the workers that
// it accepts, and workers suspended in mid-job and resumed.
func operate(ctx, _ context.Context, w *trial, r *rand.Rand) {
	c, err := w.Cluster.ClientOf(w.badge)
	if err != nil {
		w.Rec.Note("operator: %v", err)
		return
	}
	defer c.Close()
	o := &operator{w: w, r: r, c: c}
	for fault.Rest(ctx, time.Duration(500+r.IntN(2_500))*time.Millisecond) {
		switch n := r.IntN(100); {
		case n < 30:
			o.weigh(ctx)
		case n < 50:
			o.rank(ctx)
		case n < 75:
			o.suspend(ctx)
		default:
			o.modes(ctx)
		}
	}
}

type operator struct {
	w *trial
	r *rand.Rand
	c *client.Client
}

// operatorPatience is how long an operator waits for an answer.
const operatorPatience = 4 * time.Second

// do makes one call and records how it ended.
func (o *operator) do(ctx context.Context, what, subject, value string,
	call func(context.Context) error) check.Outcome {
	op := check.Op{Process: "operator", Func: what, Invoke: o.w.Rec.Now(), Did: value}
	try, cancel := context.WithTimeout(ctx, operatorPatience)
	err := call(try)
	cancel()
	op = op.Done(o.w.Rec, err)
	op.Text, op.Output = subject, op.Text
	o.w.Rec.Add(op)
	return op.Outcome
}

func (o *operator) weigh(ctx context.Context) {
	tenant, weight := tenants[o.r.IntN(len(tenants))].name, fmt.Sprint(1+o.r.IntN(6))
	o.do(ctx, check.OpTenant, string(tenant), "weight="+weight, func(ctx context.Context) error {
		_, err := o.c.SetTenant(ctx, tenant, []rota.Setting{{Key: "weight", Value: weight}})
		return err
	})
}

// rank changes the order of a queue, and of its workers, while it holds jobs.
func (o *operator) rank(ctx context.Context) {
	rankings := []string{"aging", "market", "adaptive", "fifo"}
	strategies := []string{"least_loaded", "shuffle", "round_robin", "random", "affinity"}
	ranking, strategy := rankings[o.r.IntN(len(rankings))], strategies[o.r.IntN(len(strategies))]
	o.do(ctx, check.OpQueue, "quick", ranking+" "+strategy, func(ctx context.Context) error {
		_, err := o.c.SetQueue(ctx, "quick", "", []rota.Setting{{Key: "ranking", Value: ranking},
			{Key: "strategy", Value: strategy}})
		return err
	})
}

// suspend ends all leases of a worker at once, and lets it work again later.
func (o *operator) suspend(ctx context.Context) {
	h := o.w.Hands[o.r.IntN(len(o.w.Hands))]
	id := rota.WorkerID(h.WorkerID())
	hold := time.Duration(300+o.r.IntN(2_500)) * time.Millisecond
	outcome := o.do(ctx, check.OpSuspend, string(id), "", func(ctx context.Context) error {
		_, err := o.c.SuspendWorker(ctx, id)
		return err
	})
	if outcome == check.Refused {
		return
	}
	for fault.Rest(ctx, hold) && o.resume(ctx, id) == check.Unknown {
		hold = 200 * time.Millisecond
	}
}

func (o *operator) resume(ctx context.Context, id rota.WorkerID) check.Outcome {
	return o.do(ctx, check.OpResume, string(id), "", func(ctx context.Context) error {
		_, err := o.c.ResumeWorker(ctx, id)
		return err
	})
}

// modes makes the cluster admit less for a while.
func (o *operator) modes(ctx context.Context) {
	mode := []rota.ClusterMode{rota.ModeDegraded, rota.ModeReadOnly}[o.r.IntN(2)]
	hold := time.Duration(300+o.r.IntN(2_200)) * time.Millisecond
	o.mode(ctx, mode)
	for fault.Rest(ctx, hold) && o.mode(ctx, rota.ModeNormal) == check.Unknown {
		hold = 200 * time.Millisecond
	}
}

func (o *operator) mode(ctx context.Context, mode rota.ClusterMode) check.Outcome {
	return o.do(ctx, check.OpMode, "cluster", mode.String(), func(ctx context.Context) error {
		_, err := o.c.SetMode(ctx, mode, "an unsteady hand")
		return err
	})
}

// pardon undoes settings that an operator may have left behind. A call that was still in progress may take effect after
// it, so it is repeated while the cluster drains.
func (w *trial) pardon(ctx context.Context, c *client.Client) error {
	o := &operator{w: w, c: c}
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if status.Mode != rota.ModeNormal && o.mode(ctx, rota.ModeNormal) != check.OK {
		return fmt.Errorf("the mode is still %s", status.Mode)
	}
	workers, err := client.Collect(c.Workers(ctx))
	if err != nil {
		return err
	}
	for i := range workers {
		if workers[i].Status == rota.WorkerSuspended && o.resume(ctx, workers[i].ID) == check.Unknown {
			return fmt.Errorf("worker %s is still suspended", workers[i].ID)
		}
	}
	return nil
}
