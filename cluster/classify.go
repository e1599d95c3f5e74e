package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
)

// errNotLeader means that a proposal definitely did not enter the log and may be proposed again. It never leaves the
// package.
var errNotLeader = errors.New("not the leader")

// classify maps the library's errors to the two classes that matter: definitely not applied, and unknown. Every unclear
// error is unknown.
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

// errUnknown returns the error for an entry that may or may not have committed.
func errUnknown(cause error) error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "outcome", RetryAfter: 200 * time.Millisecond, Cause: cause,
		Text: "the outcome is unknown, as the leader was lost on the way: repeat the call with the same ids"}
}

// errNoLeader returns the error for a deadline that passed before there was a leader.
func errNoLeader(last error) error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "leader", RetryAfter: 500 * time.Millisecond, Cause: last,
		Text: "the cluster has no leader, or this node cannot reach it: is a majority of its nodes up?"}
}

func errStopping() error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "node", RetryAfter: 100 * time.Millisecond,
		Text: "this node is stopping: use another one"}
}

// ctxError returns the error for a caller's context that ended.
func ctxError(ctx context.Context, doing string) error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "deadline", RetryAfter: 200 * time.Millisecond,
		Cause: ctx.Err(),
		Text:  "the deadline passed while " + doing}
}

// lastWord is how long a future may take to deliver an answer that it had before raft stopped.
const lastWord = 50 * time.Millisecond

// awaitAnswer sends the result of f. If raft never returns one, the goroutine lives until the process ends.
func awaitAnswer(f raft.Future, done chan<- error) { done <- f.Error() }
