package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/logs"
)

// memberForgotten is how long a dead member stays listed.
const memberForgotten = time.Hour

// delegate receives memberlist's callbacks. memberlist holds its own lock during them, so nothing here may call
// memberlist.
type delegate struct{ g *Gossip }

// NodeMeta implements memberlist.Delegate.
func (d delegate) NodeMeta(int) []byte {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	return d.g.encoded
}

// NotifyMsg implements memberlist.Delegate; rota sends no messages by gossip.
func (d delegate) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (d delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (d delegate) MergeRemoteState([]byte, bool) {}

// NotifyMerge implements memberlist.MergeDelegate: a join is rejected as a whole if the other side knows a node that
// does not belong to this cluster.
func (d delegate) NotifyMerge(peers []*memberlist.Node) error {
	for _, node := range peers {
		if node.State == memberlist.StateDead || node.State == memberlist.StateLeft {
			continue
		}
		if _, err := d.g.judge(node); err != nil {
			return err
		}
	}
	return nil
}

// NotifyAlive implements memberlist.AliveDelegate: it is called for every node, however this one learnt of it.
func (d delegate) NotifyAlive(node *memberlist.Node) error {
	member, err := d.g.judge(node)
	if err != nil {
		return err
	}
	d.g.mu.Lock()
	existing, known := d.g.members[member.ID]
	full := !known && len(d.g.members) >= maxMembers
	d.g.mu.Unlock()
	if full {
		return fmt.Errorf("%w: %d nodes are known already, dead ones among them", errGate, maxMembers)
	}
	if known && existing.Identity != member.Identity {
		d.g.conflict(existing.Member, member)
	}
	return nil
}

// NotifyConflict implements memberlist.ConflictDelegate: two nodes with one name at two addresses. memberlist keeps the
// first.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	first, err := memberOf(existing)
	second, err2 := memberOf(other)
	if errors.Join(err, err2) == nil {
		first.Alive = true
		d.g.conflict(first, second)
	}
}

// NotifyJoin implements memberlist.EventDelegate.
func (d delegate) NotifyJoin(node *memberlist.Node) { d.g.note(node, true) }

// NotifyUpdate implements memberlist.EventDelegate.
func (d delegate) NotifyUpdate(node *memberlist.Node) { d.g.note(node, true) }

// NotifyLeave implements memberlist.EventDelegate.
func (d delegate) NotifyLeave(node *memberlist.Node) { d.g.note(node, false) }

// judge rejects a node that does not belong to this cluster, with at most one log line per minute.
func (g *Gossip) judge(node *memberlist.Node) (Member, error) {
	member, err := memberOf(node)
	g.mu.Lock()
	own := g.meta.ClusterID
	g.mu.Unlock()
	switch {
	case err != nil:
	case node.DCur != protocolVersion:
		err = fmt.Errorf("it speaks version %d of the gossip protocol, this node %d", node.DCur, protocolVersion)
	case own != "" && member.ClusterID != "" && own != member.ClusterID:
		err = fmt.Errorf("its cluster id is %s, this one's %s, both are named %q", member.ClusterID, own,
			g.opts.Cluster)
	}
	if err == nil {
		return member, nil
	}
	name := node.Name
	if !rota.ValidID(name) {
		name = "(no id)"
	}
	if g.lines.Allow("judge/" + name) {
		g.opts.Logger.Warn("gossip: a node is refused", "node", name, "address", addressOf(node), "error", err)
	}
	return member, err
}

// memberOf decodes a node, treating it as hostile input.
func memberOf(node *memberlist.Node) (Member, error) {
	if err := rota.CheckID("node id", node.Name); err != nil {
		return Member{}, err
	}
	meta, err := decodeMeta(node.Meta)
	if err != nil {
		return Member{}, err
	}
	return Member{ID: rota.NodeID(node.Name), Meta: meta, Gossip: addressOf(node)}, nil
}

func addressOf(node *memberlist.Node) string {
	return net.JoinHostPort(node.Addr.String(), strconv.Itoa(int(node.Port)))
}

// note updates the table of members and notifies Changed.
func (g *Gossip) note(node *memberlist.Node, alive bool) {
	member, err := memberOf(node)
	if err != nil {
		return // rejected by judge before
	}
	member.Alive = alive
	now := time.Now()
	g.mu.Lock()
	for id, other := range g.members {
		if !other.Alive && now.Sub(other.since) > memberForgotten {
			delete(g.members, id)
		}
	}
	g.members[member.ID] = knownMember{member, now}
	g.mu.Unlock()
	g.opts.Logger.Debug("gossip: member", "node", member.ID, "address", member.Gossip, "alive", alive)
	g.wake()
}

// conflict reports two nodes with one id.
func (g *Gossip) conflict(existing, other Member) {
	if !g.lines.Allow("conflict/" + string(other.ID)) {
		return
	}
	g.opts.Logger.Error("gossip: two nodes have one id, or one lost its data directory", "node", other.ID,
		"existing", existing.Gossip, "other", other.Gossip,
		"existing_identity", existing.Identity, "other_identity", other.Identity)
	if g.opts.OnConflict != nil {
		g.opts.OnConflict(existing, other)
	}
}

// libraryLog writes memberlist's lines to slog: warnings and errors once a minute each, everything else at debug level,
// including messages that the delegates log better.
type libraryLog struct {
	logger *slog.Logger
	lines  *logs.Limiter
}

// Write implements io.Writer; log.Logger calls it once per line.
func (l libraryLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	level, said := slog.LevelDebug, text
	for _, mark := range []string{"[WARN] ", "[ERR] "} {
		if after, ok := strings.CutPrefix(text, mark); ok {
			level, said = slog.LevelWarn, after
		}
	}
	said = strings.TrimPrefix(said, "memberlist: ")
	for _, known := range []string{"ignoring alive message", "Ignoring an alive message", "Conflicting address",
		"Refuting a", "Failed push/pull merge"} {
		if strings.HasPrefix(said, known) {
			level = slog.LevelDebug
		}
	}
	if level > slog.LevelDebug && !l.lines.Allow("memberlist/"+said[:min(len(said), 32)]) {
		level = slog.LevelDebug
	}
	l.logger.Log(context.Background(), level, "gossip: "+said)
	return len(line), nil
}
