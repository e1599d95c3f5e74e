package verbs

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// BatchVerbs are the operations on batches, for users (SPEC §24).
type BatchVerbs struct{ n *Host }

// NewBatches returns the verbs on batches.
func NewBatches(h *Host) BatchVerbs { return BatchVerbs{h} }

func unknownBatch(id rota.BatchID) error {
	return rota.Refusef(rota.KindNotFound, "batch", "batch %q is not known", id)
}

// Batch reads one batch.
func (bv *BatchVerbs) Batch(ctx context.Context, id rota.BatchID,
	opt peer.ReadOptions) (rota.Batch, rota.ReadAt, error) {
	return replica.ReadAs(ctx, bv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) (rota.Batch, error) {
		b, ok := fsm.BatchOf(s, id)
		if !ok || !rd.Batch(&b) {
			return rota.Batch{}, unknownBatch(id)
		}
		return b, nil
	})
}

// Batches reads one page of the batches that the caller may read, after an id: those that a principal opened, or all.
func (bv *BatchVerbs) Batches(ctx context.Context, by rota.Principal, after rota.BatchID, limit int,
	opt peer.ReadOptions) (page peer.BatchPage, at rota.ReadAt, err error) {
	if limit <= 0 || limit > limits.MaxPage {
		limit = limits.MaxPage
	}
	return replica.ReadAs(ctx, bv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) (page peer.BatchPage,
		err error) {
		fsm.EachBatch(s, after, func(b rota.Batch) bool {
			switch {
			case by != "" && b.By != by, !rd.Batch(&b):
			case len(page.Batches) == limit:
				page.Next = page.Batches[limit-1].ID
			default:
				page.Batches = append(page.Batches, b)
			}
			return page.Next == ""
		})
		return page, nil
	})
}

// changed applies an operation of the caller and returns the batch as the operation left it.
func (bv *BatchVerbs) changed(ctx context.Context, id rota.BatchID, op *fsmpb.Op) (rota.Batch, error) {
	_, index, err := bv.n.ProposeOne(ctx, op)
	if err != nil {
		return rota.Batch{}, err
	}
	b, _, err := bv.Batch(access.Itself(ctx), id, peer.ReadOptions{MinIndex: index})
	return b, err
}

// OpenBatch opens a batch; repeating the call returns the same batch.
func (bv *BatchVerbs) OpenBatch(ctx context.Context, spec rota.BatchSpec) (rota.Batch, error) {
	if err := spec.CheckShape(rota.MaxPayloadBytes); err != nil {
		return rota.Batch{}, err
	}
	return bv.changed(ctx, spec.ID, entry.BatchOp(&spec))
}

// SealBatch closes a batch for new jobs.
func (bv *BatchVerbs) SealBatch(ctx context.Context, id rota.BatchID) (rota.Batch, error) {
	if err := id.Check("id"); err != nil {
		return rota.Batch{}, err
	}
	return bv.changed(ctx, id, entry.SealOp(id))
}

// AwaitBatch returns a batch once it has ended.
func (bv *BatchVerbs) AwaitBatch(ctx context.Context, id rota.BatchID) (rota.Batch, error) {
	if _, err := bv.n.Replica.Fresh(ctx, peer.ReadOptions{}); err != nil {
		return rota.Batch{}, err
	}
	notified, forget := bv.n.Replica.Hub.AwaitEnd(string(rota.CallbackID(id)))
	defer forget()
	for {
		b, _, err := bv.Batch(ctx, id, peer.ReadOptions{Stale: true}) // each time with the caller's current rights
		if err != nil || b.State == rota.BatchFinished {
			return b, err
		}
		select {
		case <-notified:
		case <-ctx.Done():
			return b, &rota.Error{Kind: rota.KindTimeout, Subject: "batch", Cause: ctx.Err(),
				Text: "the waiting time is over and batch " + string(id) + " has not ended"}
		case <-bv.n.Stopped:
			return b, fault.Stopping()
		}
	}
}
