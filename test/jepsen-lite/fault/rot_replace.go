package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// maxReplace is how long one try to replace a node may take, while other faults are active. Unfinished steps are done
// once the faults have ended.
const maxReplace = 60 * time.Second

// replacement is a rotten node that another is to replace, with the progress so far.
type replacement struct {
	old, next *Server
	removed   bool
}

// cure does the same as an operator: it leaves a node alone that serves and has read all of its disk, and replaces any
// other, including a node of unknown state.
func (k *Cluster) cure(s *Server) error {
	if s.rotten.acquitted() {
		k.endRot()
		return nil
	}
	k.replacing = &replacement{old: s}
	return k.replace()
}

// replace starts a new node with a new id and an empty directory in place of a rotten one, on the same machine. The old
// id is removed first: raft does not allow a second member at one address.
func (k *Cluster) replace() error {
	p := k.replacing
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxReplace)
	defer cancel()
	p.old.Retire(check.MaxGoodbye)
	if !p.removed {
		if err := k.remove(ctx, p.old.ID); err != nil {
			return fmt.Errorf("remove %s: %w", p.old.ID, err)
		}
		p.removed = true
	}
	if p.next == nil {
		next, err := k.successor(p.old)
		if err != nil {
			return err
		}
		p.next = next
	}
	if err := p.next.Start(); err != nil {
		return err
	}
	if err := k.takesPlace(ctx, p.next.ID, p.old.ID); err != nil {
		return err
	}
	k.rec.Note("%s took the place of %s", p.next.ID, p.old.ID)
	k.endRot()
	return nil
}

// remove removes a node, however long the others take to be healthy.
func (k *Cluster) remove(ctx context.Context, id string) error {
	c, err := k.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		err := c.RemovePeer(ctx, rota.NodeID(id))
		if err == nil || rota.KindOf(err) == rota.KindNotFound {
			return nil
		}
		if !Rest(ctx, 500*time.Millisecond) {
			return err
		}
	}
}

// takesPlace waits until the leader reports one node as a healthy voter, and another as no longer a member. The
// newcomer is not asked: it learns the configuration from the log, and shows old ones meanwhile.
func (k *Cluster) takesPlace(ctx context.Context, id, old string) error {
	for {
		var last error
		for _, s := range k.Members() {
			try, cancel := context.WithTimeout(ctx, 2*time.Second)
			status, err := s.Client.Status(try)
			cancel()
			if err == nil && string(status.Leader) == s.ID && votes(&status, id, old) {
				return nil
			}
			last = errors.Join(last, err)
		}
		if !Rest(ctx, 200*time.Millisecond) {
			return fmt.Errorf("%s does not take the place of %s: %w", id, old, errors.Join(ctx.Err(), last))
		}
	}
}

// votes reports whether a node is a healthy voter, and another one is not a member.
func votes(status *rota.ClusterStatus, id, without string) bool {
	voter := false
	for _, n := range status.Nodes {
		if string(n.ID) == without {
			return false
		}
		voter = voter || string(n.ID) == id && n.Voter && n.Healthy
	}
	return voter
}
