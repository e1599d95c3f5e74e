package fault

import (
	"context"
	"errors"
	"time"

	"github.com/rotasched/rota"
)

// Unknown returns the error for an entry that may or may not have committed.
func Unknown(cause error) error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "outcome", RetryAfter: 200 * time.Millisecond, Cause: cause,
		Text: "the outcome is unknown, as the leader was lost on the way: repeat the call with the same ids"}
}

// NoLeader returns the error for a deadline that passed before there was a leader.
func NoLeader(last error) error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "leader", RetryAfter: 500 * time.Millisecond, Cause: last,
		Text: "the cluster has no leader, or this node cannot reach it: is a majority of its nodes up?"}
}

// Stopping returns the error of a node that stops.
func Stopping() error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "node", RetryAfter: 100 * time.Millisecond,
		Text: "this node is stopping: use another one"}
}

// Deadline returns the error for a caller's context that ended.
func Deadline(ctx context.Context, doing string) error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "deadline", RetryAfter: 200 * time.Millisecond,
		Cause: ctx.Err(),
		Text:  "the deadline passed while " + doing}
}

// subjectNotLeader marks the rejection by a node that is not the leader, so that the forwarding node can distinguish it
// from an unknown outcome.
const subjectNotLeader = "not-leader"

// NotLeader returns the rejection by a node that is not the leader.
func NotLeader() error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: subjectNotLeader, RetryAfter: 50 * time.Millisecond,
		Text: "this node does not lead"}
}

// IsNotLeader reports whether a forwarded call was definitely not processed: the other node rejected it, or no
// connection to it could be made.
func IsNotLeader(err error) bool {
	var e *rota.Error
	return errors.As(err, &e) && (e.Subject == subjectNotLeader || e.Subject == SubjectNotSent)
}

// SubjectNotSent is the subject of an Unavailable error with which Peers reports that a call definitely never left this
// node.
const SubjectNotSent = "not-sent"

// Stalled returns the error for a node on which applying does not return.
func Stalled() error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: "node", RetryAfter: time.Second,
		Text: "applying has stalled on this node: use another node"}
}

// Removed returns the error for a node that was removed from the cluster.
func Removed(id rota.NodeID) error {
	return rota.Refusef(rota.KindDenied, SubjectRemoved,
		"node %s was removed from the cluster: stop it, and use another one", id)
}

// SubjectRemoved marks errors because a node was removed.
const SubjectRemoved = "removed"
