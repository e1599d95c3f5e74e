package client

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// Why explains a job: every reason for which it does not run, or the decision
// that placed it; at an index of the past where at is not 0, as far back as the
// cluster's audit_retention keeps (OutOfRange beyond).
func (c *Client) Why(ctx context.Context, id rota.JobID, at rota.Index) (rota.Explanation, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Explanation, error) {
		return rotav1.NewExplainClient(n.conn).Why(ctx, &rotav1.WhyRequest{Id: string(id), At: uint64(at)})
	}
	return one(ctx, c, "explain job", words.ExplanationFromWire, ask)
}
