package gossip

import "time"

// Discovery finds the other nodes. Gossip implements it; a simulation may put its own in
// the place.
type Discovery interface {
	// Members lists every node known, this one included, by id.
	Members() []Member
	// Changed receives a value after Members may have changed.
	Changed() <-chan struct{}
	// UpdateMeta changes what this node says of itself, and returns at once.
	UpdateMeta(change func(*Meta)) error
	// Leave announces that this node goes on purpose; Close must follow.
	Leave(timeout time.Duration) error
	Close() error
}
