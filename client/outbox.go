package client

import (
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

const (
	// batchCommands and batchBytes bound one message of commands: half a log entry, so that no node has to split it
	// (limits.MaxEntryOps, MaxEntryBytes).
	batchCommands = limits.MaxEntryOps / 2
	batchBytes    = limits.MaxEntryBytes / 2
	// batchesFlying is how many messages may be unanswered. Beyond that commands accumulate, so messages grow exactly
	// when that pays off: one is being decided while the next is on its way; more of them would only be smaller.
	batchesFlying = 2
	// maxTries bounds how often a command is sent again after an answer of kind Internal.
	maxTries = 10
)

// command is one verb on one lease to be sent to the cluster. Its content never changes, so sending it again is
// harmless (SPEC §2.7).
type command struct {
	peer.LeaseCommand
	lease   *lease
	tries   int
	dropped bool
}

// heldAck is an ack that is delayed briefly, in case the completion makes it needless.
type heldAck struct {
	lease *lease
	due   time.Duration
}

// outbox holds the commands to be sent and the unanswered ones, at most four commands a lease. The table's lock guards
// it.
type outbox struct {
	queue    []*command
	held     []heldAck
	flying   map[uint64][]*command
	sequence uint64
	// notBefore delays everything after a batch was refused.
	notBefore time.Duration
}

func newOutbox() outbox { return outbox{flying: make(map[uint64][]*command)} }

func (o *outbox) push(c *command) { o.queue = append(o.queue, c) }

func (o *outbox) holdAck(l *lease, due time.Duration) { o.held = append(o.held, heldAck{l, due}) }

// needless reports whether the lease's ack is no longer needed.
func (h heldAck) needless() bool {
	return h.lease.phase == reporting || h.lease.lost != nil || h.lease.acked || h.lease.ack != nil
}

// releaseAcks queues the acks that are due and still needed.
func (o *outbox) releaseAcks(now time.Duration) {
	i := 0
	for ; i < len(o.held) && (o.held[i].due <= now || o.held[i].needless()); i++ {
		if o.held[i].needless() {
			continue
		}
		l := o.held[i].lease
		a := &l.assignment.Lease
		l.ack = &command{lease: l, LeaseCommand: peer.LeaseCommand{Verb: rota.VerbAck, Lease: a.ID, Job: a.Job}}
		o.push(l.ack)
	}
	clear(o.held[:i])
	if o.held = o.held[i:]; len(o.held) == 0 {
		o.held = nil
	}
}

// due returns when a delayed message is to be sent; farFuture if something else has to happen first.
func (o *outbox) due(now time.Duration) time.Duration {
	switch {
	case now < o.notBefore:
		return o.notBefore
	case len(o.held) > 0:
		return o.held[0].due
	}
	return farFuture
}

// next returns a batch to send with its number, or nil.
func (o *outbox) next(now time.Duration) (batch []*command, sequence uint64) {
	if now < o.notBefore {
		return nil, 0
	}
	o.releaseAcks(now)
	if len(o.flying) >= batchesFlying {
		return nil, 0
	}
	size, i := 0, 0
	for ; i < len(o.queue) && len(batch) < batchCommands; i++ {
		c := o.queue[i]
		if c.dropped {
			continue
		}
		n := c.size()
		if len(batch) > 0 && size+n > batchBytes {
			break
		}
		batch, size = append(batch, c), size+n
	}
	clear(o.queue[:i])
	if o.queue = o.queue[i:]; len(o.queue) == 0 {
		o.queue = nil
	}
	if len(batch) == 0 {
		return nil, 0
	}
	o.sequence++
	o.flying[o.sequence] = batch
	return batch, o.sequence
}

// size returns the approximate size of the command on the wire.
func (c *command) size() int {
	return len(c.Output) + len(c.Children) + len(c.Log) + len(c.Text) + len(c.Job) + 96
}

// landed removes and returns a batch that was answered.
func (o *outbox) landed(sequence uint64) []*command {
	batch := o.flying[sequence]
	delete(o.flying, sequence)
	return batch
}

// again puts a batch without an outcome back in front of later commands.
func (o *outbox) again(batch []*command) {
	queue := make([]*command, 0, len(batch)+len(o.queue))
	for _, c := range batch {
		if !c.dropped {
			queue = append(queue, c)
		}
	}
	o.queue = append(queue, o.queue...)
}

// broken puts all unanswered commands back, in the order they were first sent: the connection is gone and their outcome
// is unknown.
func (o *outbox) broken() {
	var lost []*command
	for s := o.sequence; len(o.flying) > 0 && s > 0; s-- {
		if batch, ok := o.flying[s]; ok {
			lost = append(append(make([]*command, 0, len(batch)+len(lost)), batch...), lost...)
			delete(o.flying, s)
		}
	}
	o.again(lost)
	o.notBefore = 0
}

// empty reports whether nothing is left to send and nothing is unanswered.
func (o *outbox) empty() bool {
	for _, c := range o.queue {
		if !c.dropped {
			return false
		}
	}
	return len(o.flying) == 0
}
