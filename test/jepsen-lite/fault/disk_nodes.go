package fault

import (
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// onOwnDisk are the faults that need a disk of our own; bit-rot needs a directory that can be reached.
var onOwnDisk = []string{"slow-fsync", "hung-fsync", "eio-fsync", "eio-writes", "disk-full", "disk-fills",
	"power-loss-one", "power-loss-majority", "power-loss-all"}

func diskFaulty(nemesis string) bool { return slices.Contains(onOwnDisk, nemesis) }

// wantsDisks reports whether nodes get disks that can fail, and records the reason if they cannot.
func wantsDisks(o Options, rec *check.Recorder) bool {
	if o.Via != viaProcesses || !slices.ContainsFunc(onOwnDisk, o.allows) {
		return false
	}
	if err := canMakeDisks(); err != nil {
		rec.With(func(h *check.History) { h.NoDisks = err.Error() })
		return false
	}
	return true
}

// dataOf returns a node's data directory, which may be a mount.
func (k *Cluster) dataOf(s *Server) string { return filepath.Join(k.Dir, s.ID) }

// mendDisk ends all faults of a disk.
func (s *Server) mendDisk() error {
	if s.disk == nil {
		return nil
	}
	return s.disk.faults.clear()
}

// unmount leaves plain directories in place of disks. No process may use them any more.
func (k *Cluster) unmount() (all error) {
	for _, s := range k.All() {
		if s.disk != nil {
			all = errors.Join(all, s.disk.close())
		}
	}
	return all
}

// UnmountAll is unmount at the end of a run, however it ended.
func (k *Cluster) UnmountAll() {
	if err := k.unmount(); err != nil {
		check.Say("%v", err)
	}
}

// successor makes a node with a new id in place of one that is retired: on its machine, at its addresses, so that users
// find it there.
func (k *Cluster) successor(s *Server) (*Server, error) {
	id := k.newID()
	ports, err := portsOf(s.API, s.Raft, s.Admin, s.Gossip)
	if err != nil {
		return nil, err
	}
	if n, ok := k.net.(interface{ alias(name, of string) }); ok {
		n.alias(id, s.ID)
	}
	next, err := k.makeAt(id, s.place, ports)
	if err != nil {
		return nil, err
	}
	k.Mu.Lock()
	defer k.Mu.Unlock()
	i, last := slices.Index(k.servers, s), slices.Index(k.servers, next)
	k.servers[i], k.servers[last] = next, s
	return next, nil
}

// alias gives a place a second name, for its links.
func (s *spaces) alias(name, of string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses[name] = s.addresses[of]
}

func portsOf(addresses ...string) (ports []int, err error) {
	for _, a := range addresses {
		_, text, serr := net.SplitHostPort(a)
		port, aerr := strconv.Atoi(text)
		if err = errors.Join(serr, aerr); err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// suspicion is the knowledge about a node whose disk rots.
type suspicion struct {
	mu sync.Mutex
	on bool
	// ends counts the node's ends for damage, read means that all of the disk was read since.
	ends int
	read bool
}

// suspect starts it.
func (s *suspicion) suspect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.ends, s.read = true, 0, false
}

func (s *suspicion) suspected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on
}

// acquit records that it serves, and that all of its disk was read.
func (s *suspicion) acquit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.read = false, true
}

func (s *suspicion) acquitted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}

// ended processes the last output of a node that ended by itself.
func (s *suspicion) ended(words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on && namesDamage(words) {
		s.ends++
	}
}

// condemned reports whether it does not start again.
func (s *suspicion) condemned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends >= condemnedAfter
}

// namesDamage reports whether a message mentions damage on the disk.
func namesDamage(words string) bool {
	return slices.ContainsFunc([]string{"damage", "checksum"},
		func(w string) bool { return strings.Contains(words, w) })
}
