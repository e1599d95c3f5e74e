package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore/wal"
)

const (
	nodeFile    = "node.json"
	lockName    = "LOCK"
	nodeFileMax = 64 << 10
	// NodeFormat is the newest version of node.json: the log is in files of its own, or moves there at the next start.
	// plainFormat is the version for a log in raft.db.
	NodeFormat  = 2
	plainFormat = 1
)

// DataDir is a node's data directory, locked for this process. Raft keeps votes and acknowledged entries in it. A node
// that runs on a copy, an older state or an emptied directory breaks promises that it has forgotten, so each of these
// is rejected (SPEC §13.4; hashicorp/raft does not check).
type DataDir struct {
	path  string
	fresh bool
	lock  *os.File

	mu     sync.Mutex // guards record
	record nodeRecord
}

// OpenDataDir opens or creates the data directory of a node and counts the start. adopt is --adopt-data: the operator's
// assurance that a copy is the only and newest one. Rejections are *rota.Error of kind Conflict and state the remedy.
func OpenDataDir(path string, id rota.NodeID, clusterName string, adopt bool) (*DataDir, error) {
	if err := rota.CheckID("node id", id); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("resolve data directory: %w", err)
	}
	if err := makeDir(path); err != nil {
		return nil, err
	}
	d := &DataDir{path: path}
	if d.lock, err = lockDir(path, id); err != nil {
		return nil, err
	}
	if err := d.load(id, clusterName, adopt); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// Fresh reports that the directory held no raft state when it was opened: no term, entry, vote or snapshot. A node that
// started once and waited in vain for others left a raft.db without any of these, and is still fresh.
func (d *DataDir) Fresh() bool { return d.fresh }

// Identity returns 32 hex digits, drawn when the directory was created.
func (d *DataDir) Identity() string { return d.snapshot().Identity }

// Starts returns how often the directory has been opened, including now.
func (d *DataDir) Starts() uint64 { return d.snapshot().Starts }

// ClusterID returns the cluster's id, empty until SetClusterID.
func (d *DataDir) ClusterID() rota.ClusterID { return d.snapshot().ClusterID }

// SetClusterID records permanently the cluster that this directory belongs to. Setting the same id again succeeds,
// another id is rejected.
func (d *DataDir) SetClusterID(id rota.ClusterID) error {
	if err := rota.CheckID("cluster id", id); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.record.ClusterID {
	case id:
		return nil
	case "":
	default:
		return rota.Refusef(rota.KindConflict, "cluster-id", "data directory %s belongs to cluster id %s, but the "+
			"cluster reached has id %s: two clusters share the name %q. Check --join, or give one of them "+
			"another --cluster name", d.path, d.record.ClusterID, id, d.record.ClusterName)
	}
	next := d.record
	next.ClusterID = id
	return d.store(next)
}

// SetFounders records the nodes that found the cluster together with this one.
func (d *DataDir) SetFounders(founders map[rota.NodeID]string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.record
	next.Founders = founders
	return d.store(next)
}

// Founders returns the nodes that founded the cluster together with this one, and their identities; nil if this node
// joined an existing cluster.
func (d *DataDir) Founders() map[rota.NodeID]string { return d.snapshot().Founders }

// Rebuild returns the last rebuild of the state, the zero record if there was none.
func (d *DataDir) Rebuild() RebuildRecord {
	if r := d.snapshot().Rebuild; r != nil {
		return *r
	}
	return RebuildRecord{}
}

// SetRebuild records the progress of a rebuild, so that a crash only interrupts it.
func (d *DataDir) SetRebuild(r RebuildRecord) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.record
	next.Rebuild = &r
	return d.store(next)
}

// Cut returns the last loss of applied entries, the zero record if there was none.
func (d *DataDir) Cut() CutRecord {
	if c := d.snapshot().Cut; c != nil {
		return *c
	}
	return CutRecord{}
}

// SetCut records, in one write, that applied entries are about to be replaced, and the rebuild that follows.
func (d *DataDir) SetCut(c CutRecord, r RebuildRecord) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.record
	next.Cut, next.Rebuild = &c, &r
	return d.store(next)
}

// Plain reports whether the log is in raft.db, where v0.1.0 can read it (Options.Plain).
func (d *DataDir) Plain() bool { return d.snapshot().Format == plainFormat }

// MarkMoving makes the log move into files of its own at the next start. Binaries that cannot read these reject the
// directory from now on.
func (d *DataDir) MarkMoving() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.record.Format == NodeFormat {
		return nil
	}
	next := d.record
	next.Format = NodeFormat
	return d.store(next)
}

// Close unlocks the directory for another process.
func (d *DataDir) Close() error { return d.lock.Close() }

func (d *DataDir) snapshot() nodeRecord {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.record
}

// makeDir creates the directory and makes its name durable.
func makeDir(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// lockDir takes the lock and writes its holder into the file, for the error of the next process that tries.
func lockDir(path string, id rota.NodeID) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of data directory: %w", err)
	}
	free, err := lockFile(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if !free {
		holder, _ := readSmallFile(file.Name(), 256)
		return nil, errors.Join(inUse(path, holderWords(holder)), file.Close())
	}
	// The note is a courtesy: a full disk must not stop the node here, before it can report the problem.
	if err := file.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(file, "process %d, node %s\n", os.Getpid(), id)
	}
	return file, nil
}

// inUse returns the error for a directory that another process has open.
func inUse(path, holder string) *rota.Error {
	return rota.Refusef(rota.KindConflict, "data", "data directory %s is in use by %s: two "+
		"processes on one directory would destroy it. Stop that process, or give this node a --data "+
		"of its own", path, holder)
}

func holderWords(note []byte) string {
	if text := strings.TrimSpace(string(note)); text != "" {
		return text
	}
	return "another process"
}

// load reads or creates node.json, rejects one that does not fit, and counts the start.
func (d *DataDir) load(id rota.NodeID, clusterName string, adopt bool) error {
	// Remove temporary files of a write of node.json that crashed.
	left, _ := filepath.Glob(filepath.Join(d.path, "."+nodeFile+"-*.tmp"))
	for _, name := range left {
		_ = os.Remove(name)
	}
	hasState, err := d.hasRaftState()
	if err != nil {
		return err
	}
	now, faults := d.judge(id, clusterName, adopt, hasState)
	if len(faults) > 0 {
		return faults[0]
	}
	if now.Identity == "" {
		now.Identity = newIdentity()
	}
	now.Starts++
	return d.store(now)
}

// judge reads node.json and returns every fault, and the record that a start would keep, except for the start itself.
// It writes nothing.
func (d *DataDir) judge(id rota.NodeID, clusterName string, adopt, hasState bool) (now nodeRecord, faults []error) {
	d.fresh = !hasState
	now = nodeRecord{Format: NodeFormat, Node: id, ClusterName: clusterName}
	var err error
	if now.DirInode, now.DirBorn, err = birthOf(d.path); err != nil {
		return now, []error{err}
	}
	// Without a lock file, a start creates one that differs from the one in node.json.
	if now.LockInode, now.LockBorn, err = birthOf(filepath.Join(d.path, lockName)); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return now, []error{err}
	}
	kept, err := d.read()
	switch {
	case errors.Is(err, fs.ErrNotExist) && hasState:
		return now, []error{damaged(filepath.Join(d.path, nodeFile), "it is missing although raft state exists")}
	case errors.Is(err, fs.ErrNotExist):
		return now, nil
	case err != nil:
		return now, []error{err}
	}
	now.Format, now.ClusterID, now.Identity, now.Starts = kept.Format, kept.ClusterID, kept.Identity, kept.Starts
	now.Adoptions, now.Founders, now.Rebuild, now.Cut = kept.Adoptions, kept.Founders, kept.Rebuild, kept.Cut
	if !sameBirth(kept, now) {
		now.Adoptions++
	}
	return now, d.misfits(kept, now, adopt)
}

// misfits lists the reasons why a directory does not belong to this node or is not the original.
func (d *DataDir) misfits(kept, now nodeRecord, adopt bool) (faults []error) {
	if kept.Recovery != nil {
		return []error{rota.Refusef(rota.KindConflict, "data",
			"the recovery of data directory %s was interrupted: run "+
				"rota operator recover --data %s --yes-lose-quorum again", d.path, d.path)}
	}
	if kept.Node != now.Node {
		faults = append(faults, rota.Refusef(rota.KindConflict, "node",
			"data directory %s belongs to node %s, but this node was started as %s. "+
				"A node that votes under two ids, or on another's votes, can lose data. "+
				"Start it with --node %s, or give %s an empty --data of its own",
			d.path, kept.Node, now.Node, kept.Node, now.Node))
	}
	if kept.ClusterName != now.ClusterName {
		faults = append(faults, rota.Refusef(rota.KindConflict, "cluster",
			"data directory %s belongs to cluster %q, but this node was "+
				"started for cluster %q. Start it with --cluster %s, or give it an empty --data and a new node id",
			d.path, kept.ClusterName, now.ClusterName, kept.ClusterName))
	}
	if !sameBirth(kept, now) && !adopt {
		faults = append(faults, rota.Refusef(rota.KindConflict, "data",
			"data directory %s was copied or moved from elsewhere, or "+
				"restored in place: it, or its file LOCK, is not the one that node %s made. A copy may have "+
				"forgotten votes and acknowledged entries. Start the original, or remove this copy and join as "+
				"a new node with a new id. If the original is lost and this is its only and newest copy, "+
				"start once with --adopt-data", d.path, kept.Node))
	}
	if d.fresh && kept.ClusterID != "" {
		faults = append(faults, damaged(filepath.Join(d.path, raftFile),
			fmt.Sprintf("it is missing or empty, though this node belongs to cluster id %s", kept.ClusterID)))
	}
	return faults
}

// hasRaftState reports whether raft ever wrote here. Unreadable state counts: Preflight will report the fault.
func (d *DataDir) hasRaftState() (bool, error) {
	for _, name := range []string{raftFile, snapshotsDir, logDir} {
		info, err := os.Stat(filepath.Join(d.path, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("look for raft state: %w", err)
		}
		if name == raftFile && info.Size() > 0 && holdsState(filepath.Join(d.path, name)) {
			return true, nil
		}
		if name == logDir {
			if holds, err := wal.HoldsEntries(filepath.Join(d.path, name)); holds || err != nil {
				return true, err
			}
		}
		if name == snapshotsDir {
			inside, err := os.ReadDir(filepath.Join(d.path, name))
			if err != nil || len(inside) > 0 {
				return true, err
			}
		}
	}
	return false, nil
}
