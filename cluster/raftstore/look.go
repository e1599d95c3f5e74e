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

// Look is what LookAt found in a data directory.
type Look struct {
	// Absent reports that there is no directory yet: a start makes it.
	Absent bool
	// Unusable reports that nothing in it was looked at, for the one fault that is returned.
	Unusable bool
	// Holder is what the process that has the directory open wrote into its lock, empty
	// where none has. What such a process may be writing was not looked at.
	Holder string
	// Fresh reports that raft never wrote anything there.
	Fresh bool
	// ClusterID is that of node.json, empty before the first leader was met.
	ClusterID rota.ClusterID
	// Identity is that of node.json.
	Identity string
	// Report is what Preflight would report, its repairs left out; nil where the log was not
	// looked at, or was refused.
	Report *Report
	// State is the file with the state of the newest whole snapshot, empty for none.
	State string
}

// LookAt looks at the data directory that OpenDataDir and Preflight would open, and returns
// what either would refuse, in its words. It makes, writes, renames and removes nothing, and
// counts no start. A node that starts meanwhile is refused as by another process.
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
	d, hasState := &DataDir{path: path}, true // a process that runs has state, or will soon
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

// usable refuses a path at which a start could not make, read or write the data directory.
func usable(path string) (absent bool, err error) {
	info, err := os.Stat(path)
	missing := func() bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }
	for at := path; missing() && at != filepath.Dir(at); {
		absent, at = true, filepath.Dir(at)
		if info, err = os.Stat(at); err == nil {
			path = at // where the directory will be made
		}
	}
	switch {
	case err != nil:
		return absent, fmt.Errorf("look at data directory: %w", err)
	case !info.IsDir():
		return absent, rota.Refusef(rota.KindInvalid, "data", "%s is no directory: give --data a directory of this node's own", path)
	}
	if err := unix.Access(path, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		return absent, rota.Refusef(rota.KindDenied, "data", "data directory %s cannot be written by account %d (%v): give it to the "+
			"account that the node runs as (chown -R), or start the node as its owner", path, os.Getuid(), err)
	}
	return absent, nil
}

// peekLock returns who has the directory open, and where nobody has the lock, shared with other
// looks, until it is closed; nil where there is no file for one.
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
