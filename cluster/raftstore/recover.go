package raftstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
)

const (
	// newDir is where a recovery builds the directory's new content.
	newDir = "recovered"
	// oldDirs is the prefix of the directories that keep the previous content.
	oldDirs = "before-recovery-"
)

// RecoveryRecord is a recovery that was decided and has not finished, as node.json keeps it. No node starts on the
// directory until it has.
type RecoveryRecord struct {
	// Aside is the directory that receives the old files; Placing reports that it has all of them.
	Aside   string `json:"aside"`
	Placing bool   `json:"placing"`
}

// OpenRecovery locks the data directory of a stopped node without counting a start. It accepts a copy: a recovery
// discards the promises that a copy could break.
func OpenRecovery(path string) (*DataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("resolve data directory: %w", err)
	}
	d := &DataDir{path: path}
	if _, err := os.Stat(filepath.Join(path, nodeFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, rota.Refusef(rota.KindNotFound, "data", "%s has no %s: is it a node's data directory?", path,
			nodeFile)
	}
	if d.lock, err = lockDir(path, "recovery"); err != nil {
		return nil, err
	}
	if d.record, err = d.read(); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// Node returns the node that the directory belongs to, and the name of its cluster.
func (d *DataDir) Node() (rota.NodeID, string) {
	r := d.snapshot()
	return r.Node, r.ClusterName
}

// Recovering reports whether a recovery was decided and has not finished.
func (d *DataDir) Recovering() bool { return d.snapshot().Recovery != nil }

// New empties and returns the directory where a recovery builds.
func (d *DataDir) New() (string, error) {
	path := filepath.Join(d.path, newDir)
	if err := os.RemoveAll(path); err != nil {
		return "", err
	}
	return path, os.Mkdir(path, 0o700)
}

// Recover commits to a recovery: the directory joins another cluster under a new identity, the content of New replaces
// the current one, and the old files remain in the directory aside, which it returns. After a crash, FinishRecovery
// continues.
func (d *DataDir) Recover(cluster rota.ClusterID, stamp int64) (aside string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := fmt.Sprintf("%s%d", oldDirs, stamp)
	aside = filepath.Join(d.path, name)
	if err := os.Mkdir(aside, 0o700); err != nil {
		return "", err
	}
	old, err := json.MarshalIndent(d.record, "", "  ")
	if err != nil {
		return "", err
	}
	if err := errors.Join(replaceFile(filepath.Join(aside, nodeFile), old), syncDir(filepath.Join(d.path, newDir)),
		syncDir(d.path)); err != nil {
		return "", err
	}
	next := nodeRecord{Format: NodeFormat, Node: d.record.Node, ClusterName: d.record.ClusterName,
		ClusterID: cluster, Identity: newIdentity(), Recovery: &RecoveryRecord{Aside: name}}
	if next.DirInode, next.DirBorn, err = birthOf(d.path); err != nil {
		return "", err
	}
	if next.LockInode, next.LockBorn, err = birthOf(filepath.Join(d.path, lockName)); err != nil {
		return "", err
	}
	if err := d.store(next); err != nil {
		return "", err
	}
	d.record = next
	return aside, nil
}

// FinishRecovery moves the files that a decided recovery has not moved yet, and returns where the old files are.
func (d *DataDir) FinishRecovery() (aside string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.record.Recovery
	if r == nil {
		return "", rota.Refusef(rota.KindConflict, "data", "no recovery of %s was begun", d.path)
	}
	aside, built := filepath.Join(d.path, r.Aside), filepath.Join(d.path, newDir)
	next := d.record
	if !r.Placing {
		if err := moveAll(d.path, aside, staysInPlace); err != nil {
			return "", err
		}
		next.Recovery = &RecoveryRecord{Aside: r.Aside, Placing: true}
		if err := d.store(next); err != nil {
			return "", err
		}
		d.record = next
	}
	err = moveAll(built, d.path, func(string) bool { return false })
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // everything was moved before
	}
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.RemoveAll(built), syncDir(d.path)); err != nil {
		return "", err
	}
	next.Recovery = nil
	if err := d.store(next); err != nil {
		return "", err
	}
	d.record = next
	return aside, nil
}

// staysInPlace reports whether a recovery leaves a name in the data directory.
func staysInPlace(name string) bool {
	return name == nodeFile || name == lockName || name == newDir || strings.HasPrefix(name, oldDirs)
}

// moveAll moves the content of one directory to another.
func moveAll(from, to string, stays func(name string) bool) error {
	names, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if stays(name.Name()) {
			continue
		}
		if err := os.Rename(filepath.Join(from, name.Name()), filepath.Join(to, name.Name())); err != nil {
			return fmt.Errorf("set aside: %w", err)
		}
	}
	return errors.Join(syncDir(to), syncDir(from))
}

// StoppedState describes the snapshots of a stopped node.
type StoppedState struct {
	// File is the path of the newest snapshot's state, empty for none.
	File string
	// Index and Term belong to its last entry, Members is the configuration there.
	Index, Term uint64
	Members     raft.Configuration
}

// OpenStoppedState finds the newest snapshot of a stopped node and rejects any that is damaged; it writes nothing.
func OpenStoppedState(data string) (state StoppedState, err error) {
	names, err := os.ReadDir(filepath.Join(data, snapshotsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	if err != nil {
		return state, fmt.Errorf("list snapshots: %w", err)
	}
	for _, name := range names {
		if !name.IsDir() || strings.HasSuffix(name.Name(), snapshotTemp) {
			continue
		}
		path := filepath.Join(data, snapshotsDir, name.Name())
		found, ok := snapshotAt(path)
		if !ok {
			return state, damaged(path, "its name is not that of a snapshot")
		}
		if what := found.examine(true); what != "" {
			return state, damaged(path, what)
		}
		if found.index < state.Index || found.index == state.Index && found.term < state.Term {
			continue
		}
		raw, err := readSmallFile(filepath.Join(path, snapshotMeta), snapshotMetaMax)
		if err != nil {
			return state, err
		}
		var meta raft.SnapshotMeta
		if err := json.Unmarshal(raw, &meta); err != nil {
			return state, damaged(path, err.Error())
		}
		state = StoppedState{File: filepath.Join(path, snapshotState), Index: found.index, Term: found.term,
			Members: meta.Configuration}
	}
	return state, nil
}
