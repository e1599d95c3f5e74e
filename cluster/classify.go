package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
)

// errNotLeader says that a proposal definitely did not enter the log: it may be
// proposed again blindly. It never leaves the package.
var errNotLeader = errors.New("not the leader")

// classify sorts the library's errors into the two classes that matter:
// definitely not applied, and unknown. Everything unclear is unknown.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout),
		errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return errNotLeader
	default:
		return errUnknown(err)
	}
}

// errUnknown is the answer where nobody knows whether an entry committed.
func errUnknown(cause error) error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "outcome", RetryAfter: 200 * time.Millisecond, Cause: cause,
		Text: "the outcome is unknown, as the leader was lost on the way: repeat the call with the same ids"}
}

// errNoLeader is the answer of a deadline that came before a leader.
func errNoLeader(last error) error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "leader", RetryAfter: 500 * time.Millisecond, Cause: last,
		Text: "the cluster has no leader, or this node cannot reach it: is a majority of its nodes up?"}
}

func errStopping() error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "node", RetryAfter: 100 * time.Millisecond,
		Text: "this node is stopping: use another one"}
}

// ctxError turns the end of a caller's context into words.
func ctxError(ctx context.Context, doing string) error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "deadline", RetryAfter: 200 * time.Millisecond, Cause: ctx.Err(),
		Text: "the deadline passed while " + doing}
}

// lastWord is how long a future may still bring its answer once raft has
// stopped: what was answered before then only has to be picked up.
const lastWord = 50 * time.Millisecond

// awaitAnswer sends what raft says of f. Where raft never says it, it ends with the process.
func awaitAnswer(f raft.Future, done chan<- error) { done <- f.Error() }
