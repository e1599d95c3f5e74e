package transport

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

// fakeBatch is the batch that a core without a cluster returns.
func fakeBatch(id rota.BatchID) rota.Batch {
	return rota.Batch{ID: id, State: rota.BatchSealed, Tenant: "acme", Queue: "q", Type: "t", Size: 9, Why: "why",
		By:          "p",
		BatchCounts: rota.BatchCounts{Total: 9, Live: 1, Completed: 5, Dead: 1, Expired: 1, Cancelled: 1},
		Sealed:      rota.Moment{Clock: 3, Date: 4}}
}

func (c *fakeCore) OpenBatch(_ context.Context, spec rota.BatchSpec) (rota.Batch, error) {
	b := fakeBatch(spec.ID)
	b.Tenant, b.Queue = spec.Callback.Tenant, spec.Callback.Queue
	return b, c.err
}

func (c *fakeCore) SealBatch(_ context.Context, id rota.BatchID) (rota.Batch, error) {
	return fakeBatch(id), c.err
}

func (c *fakeCore) Batch(_ context.Context, id rota.BatchID, opt peer.ReadOptions) (rota.Batch, rota.ReadAt, error) {
	return fakeBatch(id), fakeAt(opt), c.err
}

func (c *fakeCore) Batches(_ context.Context, by rota.Principal, after rota.BatchID, limit int,
	opt peer.ReadOptions) (peer.BatchPage, rota.ReadAt, error) {
	if by != "" && by != rota.Local {
		return peer.BatchPage{}, fakeAt(opt), c.err
	}
	return peer.BatchPage{Batches: []rota.Batch{fakeBatch(after + "b")},
		Next: rota.BatchID(strings.Repeat("n", limit))}, fakeAt(opt), c.err
}

func (c *fakeCore) AwaitBatch(ctx context.Context, id rota.BatchID) (rota.Batch, error) {
	if id == "never" {
		<-ctx.Done()
		return rota.Batch{}, ctx.Err()
	}
	return fakeBatch(id), c.err
}

// batchesUnary returns each unary call of the service Batches, once well-formed and once not.
func batchesUnary(b *bundle) map[string]unaryRow {
	type call = func(context.Context) (proto.Message, error)
	batches := rotav1.NewBatchesClient(b.conn)
	open := func(change func(*rotav1.OpenBatchRequest)) call {
		return func(ctx context.Context) (proto.Message, error) {
			req := &rotav1.OpenBatchRequest{Id: "b", Callback: &rotav1.JobSpec{Type: "t"}}
			change(req)
			return batches.Open(ctx, req)
		}
	}
	as := func(*rotav1.OpenBatchRequest) {}
	seal := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return batches.Seal(ctx, &rotav1.SealBatchRequest{Id: id})
		}
	}
	get := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return batches.Get(ctx, &rotav1.GetBatchRequest{Id: id})
		}
	}
	list := func(limit int32) call {
		return func(ctx context.Context) (proto.Message, error) {
			return batches.List(ctx, &rotav1.ListBatchesRequest{Limit: limit, Cursor: "a"})
		}
	}
	wait := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return batches.Wait(ctx, &rotav1.WaitBatchRequest{Id: id})
		}
	}
	return map[string]unaryRow{
		"batches open": {open(as), open(func(r *rotav1.OpenBatchRequest) { r.Size = -1 }), `tenant:"default"`},
		"batches open callback": {open(as), open(func(r *rotav1.OpenBatchRequest) { r.Callback = nil }),
			`queue:"default"`},
		"batches open batch": {open(as), open(func(r *rotav1.OpenBatchRequest) { r.Callback.Batch = "b" }),
			`id:"b"`}, "batches seal": {seal("b"), seal("b@"), `sealed_ms:4`},
		"batches get":  {get("b"), get(strings.Repeat("b", 33)), `completed:5`},
		"batches list": {list(2), list(-1), `next_cursor:"nn"`},
		"batches wait": {wait("b"), wait(""), `why:"why"`},
	}
}

// TestBatches_wait checks that a wait that times out before the batch ends returns DeadlineExceeded, so that the caller
// repeats it.
func TestBatches_wait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithTimeout(bounded(t), 200*time.Millisecond)
	defer cancel()
	_, err := rotav1.NewBatchesClient(b.conn).Wait(ctx, &rotav1.WaitBatchRequest{Id: "never"})
	if err == nil || !strings.Contains(err.Error(), "DeadlineExceeded") {
		t.Error(err)
	}
}
