package client

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// Why explains a job: every reason why it does not run, or the decision that placed it.
func (c *Client) Why(ctx context.Context, id rota.JobID, opts ...ReadOption) (rota.Explanation, error) {
	return c.WhyAt(ctx, id, rota.WhyQuery{}, opts...)
}

// WhyAt is Why for the past state that a query names, as far back as the cluster's audit_retention keeps (OutOfRange
// beyond that). With Others it also returns the other workers considered when the job was placed. A node reads the past
// for one caller at a time (Exhausted).
func (c *Client) WhyAt(ctx context.Context, id rota.JobID, q rota.WhyQuery,
	opts ...ReadOption) (rota.Explanation, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.WhyResponse, error) {
		return rotav1.NewExplainClient(n.conn).Why(ctx, &rotav1.WhyRequest{Id: string(id), At: uint64(q.At),
			AtDateMs: int64(q.AtDate), Others: q.Others, Read: how})
	}
	from := func(w *rotav1.WhyResponse) (rota.Explanation, error) {
		return words.ExplanationFromWire(w.GetExplanation())
	}
	return read(ctx, c, "explain job", opts, from, ask)
}

// ETA forecasts when a job starts, from the state of the node that answers. The interval is meant to contain the start
// of at least 9 of 10 jobs. A node forecasts for a few callers at a time (Exhausted); it needs no leader.
func (c *Client) ETA(ctx context.Context, id rota.JobID, opts ...ReadOption) (rota.ETA, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.EtaResponse, error) {
		return rotav1.NewExplainClient(n.conn).Eta(ctx, &rotav1.EtaRequest{Id: string(id), Read: how})
	}
	from := func(w *rotav1.EtaResponse) (rota.ETA, error) { return words.ETAFromWire(w.GetEta()) }
	return read(ctx, c, "forecast job", opts, from, ask)
}

// Past returns how many log entries the answering node would replay to compute the state that a query names. It does
// not replay them. Another node may answer a later WhyAt, and may replay a different number of entries.
func (c *Client) Past(ctx context.Context, q rota.WhyQuery) (p rota.Past, err error) {
	err = c.call(ctx, "look at the past", maxAnswer, func(ctx context.Context, n *node) error {
		got, err := rotav1.NewExplainClient(n.conn).Past(ctx,
			&rotav1.PastRequest{At: uint64(q.At), AtDateMs: int64(q.AtDate)})
		p = words.PastFromWire(got)
		return err
	})
	return p, err
}
