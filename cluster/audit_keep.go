package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// auditDir holds what audit_retention keeps beside raft's own snapshots: second
// names (hard links) of older ones, so that they cost no copy and outlive raft's
// own choice.
const auditDir = "audit"

// auditSnapshot is a state from which the log can be replayed. Index 0 is the
// state before a cluster's first entry, which needs no file.
type auditSnapshot struct {
	index      uint64
	operations uint64
}

func (s auditSnapshot) name() string { return fmt.Sprintf("%020d-%020d.snap", s.index, s.operations) }

// auditKeep keeps the log, and a snapshot at or before its first entry, as far
// back as the last `retention` operations (SPEC §2.4).
type auditKeep struct {
	dir       string
	retention uint64

	mu   sync.Mutex
	list []auditSnapshot // oldest first
	// pins counts those who read the oldest: it stays until they are done.
	pins int
}

// openAuditKeep reads what is kept. firstLog is the oldest entry of the log:
// snapshots before the one that it follows on are of no use any more.
func openAuditKeep(data string, retention, firstLog uint64) (*auditKeep, error) {
	k := &auditKeep{dir: filepath.Join(data, auditDir), retention: retention}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return nil, &rota.Error{Kind: rota.KindInternal, Text: "directory of older snapshots cannot be made", Cause: err}
	}
	found, err := listAudit(k.dir)
	if err != nil {
		return nil, err
	}
	if firstLog <= 1 {
		k.list = append(k.list, auditSnapshot{})
	}
	for _, s := range found {
		if s.index+1 >= firstLog {
			k.list = append(k.list, s)
		} else if err := k.remove(s); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// listAudit lists the older snapshots of a data directory, oldest first.
func listAudit(dir string) ([]auditSnapshot, error) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list older snapshots: %w", err)
	}
	var found []auditSnapshot
	for _, name := range names {
		var s auditSnapshot
		if n, _ := fmt.Sscanf(name.Name(), "%d-%d.snap", &s.index, &s.operations); n == 2 && s.name() == name.Name() {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b auditSnapshot) int { return cmp.Compare(a.index, b.index) })
	return found, nil
}

// offer keeps a snapshot that raft has just written, if it is a fair step from
// the one before, and lets go of those that retention does not ask for.
func (k *auditKeep) offer(state string, s auditSnapshot) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.list); n == 0 || s.operations >= k.list[n-1].operations+max(k.retention/4, 1) {
		err := os.Link(state, filepath.Join(k.dir, s.name()))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("keep snapshot %d for audits: %w", s.index, err)
		}
		k.list = append(k.list, s)
	}
	for len(k.list) > 1 && k.pins == 0 && k.list[1].operations+k.retention <= s.operations {
		if err := k.remove(k.list[0]); err != nil {
			return err
		}
		k.list = k.list[1:]
	}
	return nil
}

// reset forgets everything before a snapshot that was installed: the log before
// it is gone.
func (k *auditKeep) reset() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.list {
		if err := k.remove(s); err != nil {
			return err
		}
	}
	k.list = nil
	return nil
}

func (k *auditKeep) remove(s auditSnapshot) error {
	if s.index == 0 {
		return nil
	}
	if err := os.Remove(filepath.Join(k.dir, s.name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove older snapshot: %w", err)
	}
	return nil
}

// pin returns the oldest kept snapshot, and keeps it and the log after it until unpin.
func (k *auditKeep) pin() (auditSnapshot, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) == 0 {
		return auditSnapshot{}, false
	}
	k.pins++
	return k.list[0], true
}

func (k *auditKeep) unpin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pins--
}

// floor is the oldest entry that the log must keep, 0 for no wish.
func (k *auditKeep) floor() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) == 0 {
		return 0
	}
	return k.list[0].index + 1
}

// before returns the newest kept snapshot at or before an index.
func (k *auditKeep) before(index uint64) (s auditSnapshot, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, x := range k.list {
		if x.index <= index {
			s, ok = x, true
		}
	}
	return s, ok
}

// keepForAudit keeps a snapshot that raft has written, should audits need it. A
// failure costs only audits of the past.
func (n *Node) keepForAudit(id string, index, operations uint64) {
	if err := n.audit.offer(n.snapshots.StateFile(id), auditSnapshot{index, operations}); err != nil {
		n.log.Warn("the past can be audited from a later state only", "err", err)
	}
}

// followInstalled looks whether a snapshot that is being restored came from
// another node: the log then follows on that one alone.
func (n *Node) followInstalled(index rota.Index, m *fsm.Machine) {
	last, err := n.stores.Log.LastIndex()
	if err != nil || last >= uint64(index) {
		return
	}
	if err := n.audit.reset(); err != nil {
		n.log.Warn("older snapshots stay", "err", err)
	}
	if kept, err := n.snapshots.List(); err == nil && len(kept) > 0 && kept[0].Index == uint64(index) {
		n.keepForAudit(kept[0].ID, uint64(index), m.Head().Operations)
	}
}

// load reads a kept snapshot into a machine of its own.
func (s auditSnapshot) load(dir string) (*fsm.Machine, error) {
	if s.index == 0 {
		return fsm.New(), nil
	}
	return loadState(filepath.Join(dir, s.name()))
}

// loadState reads a snapshot file into a machine; nothing of a damaged one.
func loadState(path string) (*fsm.Machine, error) {
	f, err := snapshot.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, _, err := snapshot.Read(f, func(info rota.SnapshotInfo) (snapshot.Sink[*fsm.Machine], error) {
		return fsm.NewLoader(info)
	})
	return m, err
}
