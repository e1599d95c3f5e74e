package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rotasched/rota"
)

// Look holds what LookAt found in a data directory.
type Look struct {
	// Absent reports that the directory does not exist yet: a start creates it.
	Absent bool
	// Unusable reports that nothing in the directory was read because of the one fault that is returned.
	Unusable bool
	// Holder is the text that the process holding the directory wrote into its lock, empty if none holds it. Files that
	// such a process may be writing were not read.
	Holder string
	// Fresh reports that raft never wrote anything there.
	Fresh bool
	// ClusterID comes from node.json; it is empty until the node has met its first leader.
	ClusterID rota.ClusterID
	// Identity comes from node.json.
	Identity string
	// Report is what Preflight would report, without its repairs; nil if the log was not read or was rejected.
	Report *Report
	// State is the path of the state file of the newest whole snapshot, empty for none.
	State string
}

// LookAt inspects the data directory that OpenDataDir and Preflight would open, and returns the errors that either
// would return. It creates, writes, renames and removes nothing, and does not count a start. A node that starts
// meanwhile fails as if another process held the directory.
func LookAt(path string, id rota.NodeID, clusterName string, adopt bool) (look Look, faults []error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Look{Unusable: true}, []error{fmt.Errorf("resolve data directory: %w", err)}
	}
	if look.Absent, err = usable(path); err != nil {
		return Look{Unusable: true}, []error{err}
	}
	if look.Absent {
		return look, nil
	}
	lock, holder, err := peekLock(path)
	if err != nil {
		return Look{Unusable: true}, []error{err}
	}
	if lock != nil {
		defer lock.Close()
	}
	look.Holder = holder
	d, hasState := &DataDir{path: path}, true // a running process has state or will soon have it
	if holder == "" {
		if hasState, err = d.hasRaftState(); err != nil {
			return Look{Unusable: true}, []error{err}
		}
	}
	now, faults := d.judge(id, clusterName, adopt, hasState)
	look.Fresh, look.ClusterID, look.Identity = d.fresh, now.ClusterID, now.Identity
	if holder != "" {
		if !strings.HasSuffix(holder, ", node "+string(id)) {
			faults = append(faults, inUse(path, holder))
		}
		return look, faults
	}
	found, err := survey(path)
	if err != nil {
		return look, append(faults, err)
	}
	look.Report = found.report
	for _, s := range found.snapshots {
		if s.damage == "" {
			look.State = filepath.Join(s.path, snapshotState)
			break
		}
	}
	return look, faults
}

// usable rejects a path where a start could not create, read or write the data directory.
func usable(path string) (absent bool, err error) {
	info, err := os.Stat(path)
	missing := func() bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }
	for at := path; missing() && at != filepath.Dir(at); {
		absent, at = true, filepath.Dir(at)
		if info, err = os.Stat(at); err == nil {
			path = at // where the directory will be created
		}
	}
	switch {
	case err != nil:
		return absent, fmt.Errorf("look at data directory: %w", err)
	case !info.IsDir():
		return absent, rota.Refusef(rota.KindInvalid, "data",
			"%s is not a directory: give --data a directory of this node's own", path)
	}
	if err := unix.Access(path, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		return absent, rota.Refusef(rota.KindDenied, "data",
			"data directory %s cannot be written by account %d (%v): give it to the "+
				"node's account (chown -R), or start the node as its owner", path, os.Getuid(), err)
	}
	return absent, nil
}

// peekLock returns the process that has the directory open. If none does, it returns the lock, shared with other
// readers until it is closed, or nil if there is no lock file.
func peekLock(path string) (lock *os.File, holder string, err error) {
	lock, err = os.Open(filepath.Join(path, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("open lock of data directory: %w", err)
	}
	free, err := flock(lock, unix.LOCK_SH)
	if err == nil && !free {
		note, _ := readSmallFile(lock.Name(), 256)
		holder = holderWords(note)
	}
	if err != nil || !free {
		return nil, holder, errors.Join(err, lock.Close())
	}
	return lock, "", nil
}
