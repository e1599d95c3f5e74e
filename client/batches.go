package client

import (
	"context"
	"iter"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// Batches groups the calls for batches: jobs whose end is awaited together (SPEC §24).
type Batches struct{ c *Client }

// BatchesOf returns the calls for a cluster's batches.
func BatchesOf(c *Client) Batches { return Batches{c} }

// Open opens a batch. Jobs that name it in their Batch field count in it; once it is sealed and all its jobs have
// ended, its callback is submitted as [rota.CallbackID]. An empty id is set before the first try; opening the same id
// again returns the same batch.
func (b Batches) Open(ctx context.Context, spec rota.BatchSpec) (rota.Batch, error) {
	if spec.ID == "" {
		spec.ID = rota.BatchID(NewJobID())
	}
	request := words.BatchSpecToWire(&spec)
	ask := func(ctx context.Context, n *node) (*rotav1.Batch, error) { return n.batches.Open(ctx, request) }
	return one(ctx, b.c, "open batch", words.BatchFromWire, ask)
}

// Seal closes a batch to further jobs; sealing it again changes nothing.
func (b Batches) Seal(ctx context.Context, id rota.BatchID) (rota.Batch, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Batch, error) {
		return n.batches.Seal(ctx, &rotav1.SealBatchRequest{Id: string(id)})
	}
	return one(ctx, b.c, "seal batch", words.BatchFromWire, ask)
}

// Get reads one batch.
func (b Batches) Get(ctx context.Context, id rota.BatchID, opts ...ReadOption) (rota.Batch, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.GetBatchResponse, error) {
		return n.batches.Get(ctx, &rotav1.GetBatchRequest{Id: string(id), Read: how})
	}
	from := func(w *rotav1.GetBatchResponse) (rota.Batch, error) { return words.BatchFromWire(w.GetBatch()) }
	return read(ctx, b.c, "show batch", opts, from, ask)
}

// List lists all batches by id.
func (b Batches) List(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Batch, error] {
	return list(ctx, b.c, "list batches", 0, "", opts,
		func(ctx context.Context, n *node, p page) (got pageOf[rota.Batch], err error) {
			answer, err := n.batches.List(ctx, &rotav1.ListBatchesRequest{Read: words.ReadToWire(p.read),
				Limit: int32(p.limit), Cursor: p.cursor, By: p.by})
			if err != nil {
				return got, err
			}
			got.items, err = words.BatchesFromWire(answer.GetBatches())
			got.next, got.at = answer.GetNextCursor(), answer.GetAt()
			return got, err
		})
}

// Wait returns a batch once all its jobs have ended and its callback was submitted. It retries like
// [Client.WaitWorkflow].
func (b Batches) Wait(ctx context.Context, id rota.BatchID) (rota.Batch, error) {
	w := endWait[rota.Batch]{op: "wait batch", what: "batch " + string(id), id: string(id)}
	w.ask = func(ctx context.Context, n *node) (rota.Batch, error) {
		wire, err := n.batches.Wait(ctx, &rotav1.WaitBatchRequest{Id: string(id)})
		if err != nil {
			return rota.Batch{}, words.FromStatus(err)
		}
		return words.BatchFromWire(wire)
	}
	w.look = func(ctx context.Context) (rota.Batch, bool, error) {
		batch, err := b.Get(ctx, id)
		return batch, batch.State == rota.BatchFinished, err
	}
	return awaitEnd(ctx, b.c, &w)
}
