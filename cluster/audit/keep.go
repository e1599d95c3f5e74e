package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// Dir is the subdirectory of a data directory that holds the snapshots kept for audit_retention: second names (hard
// links) of raft's older snapshots, which need no copy and outlive raft's own selection.
const Dir = "audit"

// state is a state that the log can be replayed from. Index 0 is the state before a cluster's first entry, which needs
// no file.
type state struct {
	index      uint64
	operations uint64
}

func (s state) name() string { return fmt.Sprintf("%020d-%020d.snap", s.index, s.operations) }

// Keep keeps the log, and a snapshot at or before its first entry, as far back as the last `retention` operations
// (SPEC §2.4).
type Keep struct {
	dir       string
	retention uint64
	log       *slog.Logger

	mu   sync.Mutex
	list []state // oldest first
	// generation counts how often the kept states were discarded.
	generation uint64
	// pins counts the readers of the oldest state: it stays until they are done.
	pins int
}

// Open reads the kept states. firstLog is the oldest entry of the log: snapshots before the one that it continues from
// are no longer useful.
func Open(data string, retention, firstLog uint64, log *slog.Logger) (*Keep, error) {
	k := &Keep{dir: filepath.Join(data, Dir), retention: retention, log: log}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return nil, &rota.Error{Kind: rota.KindInternal, Text: "directory of older snapshots cannot be made",
			Cause: err}
	}
	found, err := list(k.dir)
	if err != nil {
		return nil, err
	}
	if firstLog <= 1 {
		k.list = append(k.list, state{})
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

// list lists the older snapshots of a data directory, oldest first.
func list(dir string) ([]state, error) {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list older snapshots: %w", err)
	}
	var found []state
	for _, name := range names {
		var s state
		if n, _ := fmt.Sscanf(name.Name(), "%d-%d.snap", &s.index, &s.operations); n == 2 && s.name() == name.Name() {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b state) int { return cmp.Compare(a.index, b.index) })
	return found, nil
}

// Offer keeps a snapshot that raft has just written, at an index and after a number of operations, if it is far enough
// from the previous one, and drops those that retention does not need. A failure affects only audits of the past.
func (k *Keep) Offer(file string, index, operations uint64) {
	if err := k.offer(file, state{index, operations}); err != nil {
		k.log.Warn("the past can be audited from a later state only", "err", err)
	}
}

func (k *Keep) offer(file string, s state) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.list); n == 0 || s.operations >= k.list[n-1].operations+max(k.retention/4, 1) {
		err := os.Link(file, filepath.Join(k.dir, s.name()))
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

// Reset drops everything before a snapshot that was installed: the log before it is gone.
func (k *Keep) Reset() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generation++
	for _, s := range k.list {
		if err := k.remove(s); err != nil {
			return err
		}
	}
	k.list = nil
	return nil
}

func (k *Keep) remove(s state) error {
	if s.index == 0 {
		return nil
	}
	if err := os.Remove(filepath.Join(k.dir, s.name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove older snapshot: %w", err)
	}
	return nil
}

// pin returns the oldest kept snapshot, and keeps it and the log after it until unpin.
func (k *Keep) pin() (state, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) == 0 {
		return state{}, false
	}
	k.pins++
	return k.list[0], true
}

func (k *Keep) unpin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pins--
}

// Floor returns the oldest entry that the log must keep, 0 for no requirement.
func (k *Keep) Floor() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) == 0 {
		return 0
	}
	return k.list[0].index + 1
}

// before returns the newest kept snapshot at or before an index.
func (k *Keep) before(index uint64) (s state, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, x := range k.list {
		if x.index <= index {
			s, ok = x, true
		}
	}
	return s, ok
}

// Nearest returns the index of the newest kept state at or before an index; ok is false if there is none.
func (k *Keep) Nearest(index rota.Index) (at rota.Index, ok bool) {
	s, ok := k.before(uint64(index))
	return rota.Index(s.index), ok
}

// Generation changes when the kept states are discarded: a state loaded before that belongs to a different past.
func (k *Keep) Generation() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.generation
}

// Load returns the newest kept state at or before an index, and its index.
func (k *Keep) Load(index rota.Index) (m *fsm.Machine, at rota.Index, err error) {
	base, ok := k.before(uint64(index))
	if !ok {
		return nil, 0, rota.Refusef(rota.KindOutOfRange, "at", "index %d lies before what audit_retention keeps", index)
	}
	m, err = base.load(k.dir)
	return m, rota.Index(base.index), err
}

// Forward advances a state from one index to another by replaying the log, and returns how far it came: after a Timeout
// the state can be advanced further.
func Forward(ctx context.Context, m *fsm.Machine, log Log, from, to rota.Index) (reached rota.Index, err error) {
	reached = from
	if err := walkLog(ctx, log, uint64(from)+1, uint64(to), func(entry *raft.Log) error {
		if _, err := m.Apply(rota.Index(entry.Index), entry.Term, entry.Data); err != nil {
			return err
		}
		reached = rota.Index(entry.Index)
		return nil
	}); err != nil {
		return reached, err
	}
	return to, nil
}

// ForgetAfter removes the states kept after the last correct one and before the new correct one.
func (k *Keep) ForgetAfter(right, good uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generation++
	var failed error
	k.list = slices.DeleteFunc(k.list, func(s state) bool {
		if s.index < right || s.index >= good || failed != nil {
			return false
		}
		failed = k.remove(s)
		return failed == nil
	})
	return failed
}

// load reads a kept snapshot into a new machine.
func (s state) load(dir string) (*fsm.Machine, error) {
	if s.index == 0 {
		return fsm.New(), nil
	}
	return loadFile(filepath.Join(dir, s.name()))
}

// loadFile reads a snapshot file into a machine; a damaged file yields none.
func loadFile(path string) (*fsm.Machine, error) {
	f, err := snapshot.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, _, err := snapshot.ReadState(f, func(info rota.SnapshotInfo) (snapshot.Sink[*fsm.Machine], error) {
		return fsm.NewLoader(info)
	})
	return m, err
}
