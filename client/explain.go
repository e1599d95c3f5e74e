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
func (c *Client) Why(ctx context.Context, id rota.JobID, at rota.Index, opt rota.ReadOptions) (rota.Explanation, rota.ReadAt, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.WhyResponse, error) {
		return rotav1.NewExplainClient(n.conn).Why(ctx, &rotav1.WhyRequest{Id: string(id), At: uint64(at), Read: words.ReadToWire(opt)})
	}
	from := func(w *rotav1.WhyResponse) (rota.Explanation, error) {
		return words.ExplanationFromWire(w.GetExplanation())
	}
	return read(ctx, c, "explain job", from, ask)
}
