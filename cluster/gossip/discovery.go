package gossip

import "time"

// Discovery finds the other nodes. Gossip implements it; a simulation may replace it.
type Discovery interface {
	// Members lists every known node, including this one, by id.
	Members() []Member
	// Changed receives a value after Members may have changed.
	Changed() <-chan struct{}
	// UpdateMeta changes this node's metadata, and returns immediately.
	UpdateMeta(change func(*Meta)) error
	// Leave announces that this node leaves on purpose; Close must follow.
	Leave(timeout time.Duration) error
	Close() error
}
