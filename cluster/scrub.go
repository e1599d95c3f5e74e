package cluster

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/snapshot"
)

const (
	// DefaultScrubEvery is how often everything on the disk is read and verified.
	DefaultScrubEvery = 24 * time.Hour
	// scrubBytes are read between two rests of scrubRest: at most 20 MiB/s.
	scrubBytes = 1 << 20
	scrubRest  = 50 * time.Millisecond
)

// scrubber reads what nobody reads for months, so that damage is found while other
// nodes still have what was damaged. What it finds is mended from the state in memory
// (log, snapshots) or from another node (ended jobs, events).
type scrubber struct {
	mu sync.Mutex
	// found counts damage by what was damaged; open names what is not mended yet.
	found map[string]uint64
	open  map[string]string
	// passes counts whole passes.
	passes uint64
	// read counts bytes since the last rest.
	read int
}

// What can be damaged.
const (
	scrubLog      = "log"
	scrubSnapshot = "snapshot"
	scrubArchive  = "archive"
	scrubEvents   = "events"
)

// scrubLoop scrubs in the background; a restart begins the interval anew, as starting
// reads the log and the newest snapshot anyway.
func (n *Node) scrubLoop() {
	if n.cfg.ScrubEvery < 0 {
		return
	}
	tick := time.NewTicker(n.cfg.ScrubEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if n.refuseRebuilding() == nil {
				n.scrubOnce()
			}
		case <-n.stopped:
			return
		}
	}
}

// scrubOnce reads everything once.
func (n *Node) scrubOnce() {
	s := &n.scrub
	for _, part := range []struct {
		what string
		do   func() error
	}{{scrubLog, n.scrubLog}, {scrubSnapshot, n.scrubSnapshots}, {scrubArchive, n.scrubArchive}, {scrubEvents, n.scrubEvents}} {
		err := part.do()
		if n.stopping() {
			return
		}
		s.mu.Lock()
		if delete(s.open, part.what); err != nil {
			if s.open == nil {
				s.open = make(map[string]string)
			}
			s.open[part.what] = err.Error()
		}
		s.mu.Unlock()
		if err != nil {
			n.log.Error("scrubbing found what it cannot mend", "what", part.what, "err", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passes++
}

// rest bounds the rate; false says that the node stops.
func (n *Node) rest(read int) bool {
	n.scrub.mu.Lock()
	n.scrub.read += read
	full := n.scrub.read >= scrubBytes
	if full {
		n.scrub.read = 0
	}
	n.scrub.mu.Unlock()
	if !full {
		return !n.stopping()
	}
	return n.pause(n.life, scrubRest) == nil
}

// damage notes what was found, by name.
func (n *Node) damage(what, name, why string) {
	n.scrub.mu.Lock()
	if n.scrub.found == nil {
		n.scrub.found = make(map[string]uint64)
	}
	n.scrub.found[what]++
	n.scrub.mu.Unlock()
	n.log.Error("scrubbing found damage", "what", what, "name", name, "damage", why)
}

// scrubLog reads every entry from the disk. The state in memory has what a damaged
// one did: a snapshot of it takes the place of the log up to there, as it does
// whenever raft cuts the log. The newest entry is left to the next pass: raft's own
// count ends with it.
func (n *Node) scrubLog() error {
	first, last, err := n.stores.Stored()
	if err != nil || first == 0 {
		return err
	}
	bad := uint64(0)
	for index := first; index <= last; index++ {
		var entry raft.Log
		err := n.stores.ReadStored(index, &entry)
		if errors.Is(err, raft.ErrLogNotFound) {
			continue // cut meanwhile
		}
		if err != nil {
			if n.stopping() {
				return nil // the file was closed
			}
			n.damage(scrubLog, fmt.Sprintf("entry %d", index), err.Error())
			bad = index
		}
		if !n.rest(len(entry.Data) + 64) {
			return nil
		}
	}
	if bad == 0 {
		return nil
	}
	return n.cutDamaged(bad)
}

// cutDamaged puts a snapshot in the place of the log up to a damaged entry.
func (n *Node) cutDamaged(bad uint64) error {
	f := n.raft.Snapshot()
	if err := n.settled(f); err != nil {
		return rota.Refusef(rota.Unavailable, "data", "entry %d of the log is damaged, and no snapshot could be written in its place: %v",
			bad, err)
	}
	meta, content, err := f.Open()
	if err != nil {
		return err
	}
	_ = content.Close()
	first, last, err := n.stores.Stored()
	if err != nil {
		return err
	}
	if meta.Index < bad || last <= bad {
		return rota.Refusef(rota.Unavailable, "data", "entry %d of the log is damaged and no snapshot covers it yet: leave the node "+
			"running, it is tried again", bad)
	}
	// Snapshots before it have no log any more that they could go on with.
	if err := n.audit.reset(); err != nil {
		return err
	}
	kept, err := n.snapshots.List()
	if err != nil {
		return err
	}
	var before []string
	for _, s := range kept {
		if s.Index < bad {
			before = append(before, s.ID)
		}
	}
	if err := n.asideOf(before); err != nil {
		return err
	}
	if err := n.stores.CutStored(first, bad); err != nil {
		return err
	}
	n.keepForAudit(meta.ID, meta.Index, n.freeze().Operations())
	n.log.Warn("a damaged entry was cut off the log, a snapshot stands in its place", "entry", bad, "snapshot", meta.ID)
	return nil
}

// scrubSnapshots verifies raft's snapshots. One that is damaged is set aside, and a
// new one written: raft sends its newest to followers, whole or not.
func (n *Node) scrubSnapshots() error {
	var bad []string
	if err := n.snapshots.Verify(func(id, damage string) bool {
		if damage != "" {
			n.damage(scrubSnapshot, id, damage)
			bad = append(bad, id)
		}
		return n.rest(scrubBytes)
	}); err != nil || len(bad) == 0 || n.stopping() {
		return err
	}
	// The new one first: a crash in between must find a state to start from.
	if err := n.settled(n.raft.Snapshot()); err != nil {
		return rota.Refusef(rota.Unavailable, "data", "snapshot %s is damaged, and no new one could be written: %v", bad[0], err)
	}
	return n.asideOf(bad)
}

// scrubArchive verifies ended jobs; damaged ones are fetched from another node, and what
// finds them by their ids is restored from them.
func (n *Node) scrubArchive() error {
	partial, err := n.scrubMarks()
	if err != nil {
		return err
	}
	for next := uint64(1); next != 0; {
		var read int
		var damaged []uint64
		var err error
		if next, read, damaged, err = n.history.store.Scrub(next, scrubBytes); err != nil {
			return err
		}
		if err := n.dropFound(damaged); err != nil {
			return err
		}
		if !n.rest(read) {
			return nil
		}
	}
	return n.history.store.Mended(partial)
}

// scrubMarks verifies what finds ended jobs by their ids, and tells where it is incomplete.
func (n *Node) scrubMarks() (partial []snapshot.IDSpan, err error) {
	for from := rota.JobID(""); ; {
		found, err := n.history.store.ScrubMarks(from, scrubBytes)
		if err != nil {
			return nil, err
		}
		for range found.Torn {
			n.damage(scrubArchive, fmt.Sprintf("list of ended jobs' ids from %q on", from), "its checksum does not match")
		}
		if err := n.dropFound(found.Damaged); err != nil {
			return nil, err
		}
		partial = append(partial, found.Partial...)
		if from = found.Next; from == "" || !n.rest(found.Read) {
			return partial, nil
		}
	}
}

// dropFound gives damaged ended jobs up, to be fetched from another node.
func (n *Node) dropFound(damaged []uint64) error {
	for _, seq := range damaged {
		n.damage(scrubArchive, fmt.Sprintf("ended job number %d", seq), "its checksum does not match")
	}
	if len(damaged) == 0 {
		return nil
	}
	return n.history.store.Drop(damaged)
}

// scrubEvents verifies events; damaged chunks are fetched from another node.
func (n *Node) scrubEvents() error {
	var bad []rota.Index
	n.events.store.Walk(func(first, last rota.Index, entries []snapshot.EventEntry, err error) bool {
		if err != nil {
			n.damage(scrubEvents, fmt.Sprintf("events of entries %d to %d", first, last), err.Error())
			bad = append(bad, first)
		}
		return n.rest(scrubBytes)
	})
	for _, first := range bad {
		if err := n.events.store.DropAt(first); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) scrubProblems() (problems []string) {
	n.scrub.mu.Lock()
	defer n.scrub.mu.Unlock()
	for _, what := range []string{scrubLog, scrubSnapshot, scrubArchive, scrubEvents} {
		if text, ok := n.scrub.open[what]; ok {
			problems = append(problems, "scrubbing the "+what+": "+text)
		}
	}
	return problems
}

func (n *Node) scrubCollectors() (all []prometheus.Collector) {
	for _, what := range []string{scrubLog, scrubSnapshot, scrubArchive, scrubEvents} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_scrub_damaged_total",
			Help: "What scrubbing found damaged.", ConstLabels: prometheus.Labels{"what": what}}, func() float64 {
			n.scrub.mu.Lock()
			defer n.scrub.mu.Unlock()
			return float64(n.scrub.found[what])
		}))
	}
	return append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_scrub_passes_total",
		Help: "How often everything on the disk was read and verified."}, func() float64 {
		n.scrub.mu.Lock()
		defer n.scrub.mu.Unlock()
		return float64(n.scrub.passes)
	}))
}
