package client

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// Why explains a job: every reason for which it does not run, or the decision
// that placed it.
func (c *Client) Why(ctx context.Context, id rota.JobID, opts ...ReadOption) (rota.Explanation, error) {
	return c.WhyAt(ctx, id, 0, opts...)
}

// WhyAt explains a job as it was at an index of the past, as far back as the
// cluster's audit_retention keeps (OutOfRange beyond). Index 0 is now.
func (c *Client) WhyAt(ctx context.Context, id rota.JobID, at rota.Index, opts ...ReadOption) (rota.Explanation, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.WhyResponse, error) {
		return rotav1.NewExplainClient(n.conn).Why(ctx, &rotav1.WhyRequest{Id: string(id), At: uint64(at), Read: how})
	}
	from := func(w *rotav1.WhyResponse) (rota.Explanation, error) {
		return words.ExplanationFromWire(w.GetExplanation())
	}
	return read(ctx, c, "explain job", opts, from, ask)
}
