package cluster

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/snapshot/archive"
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
	n  *Node
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

// run scrubs in the background; a restart begins the interval anew, as starting
// reads the log and the newest snapshot anyway.
func (sc *scrubber) run() {
	if sc.n.cfg.ScrubEvery < 0 {
		return
	}
	tick := time.NewTicker(sc.n.cfg.ScrubEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if sc.n.replica.refuseRebuilding() == nil {
				sc.once()
			}
		case <-sc.n.stopped:
			return
		}
	}
}

// once reads everything once.
func (sc *scrubber) once() {
	for _, part := range []struct {
		what string
		do   func() error
	}{{scrubLog, sc.scrubLog}, {scrubSnapshot, sc.scrubSnapshots}, {scrubArchive, sc.scrubArchive}, {scrubEvents, sc.scrubEvents}} {
		err := part.do()
		if sc.n.stopping() {
			return
		}
		sc.mu.Lock()
		if delete(sc.open, part.what); err != nil {
			if sc.open == nil {
				sc.open = make(map[string]string)
			}
			sc.open[part.what] = err.Error()
		}
		sc.mu.Unlock()
		if err != nil {
			sc.n.log.Error("scrubbing found what it cannot mend", "what", part.what, "err", err)
		}
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.passes++
}

// rest bounds the rate; false says that the node stops.
func (sc *scrubber) rest(read int) bool {
	sc.mu.Lock()
	sc.read += read
	full := sc.read >= scrubBytes
	if full {
		sc.read = 0
	}
	sc.mu.Unlock()
	if !full {
		return !sc.n.stopping()
	}
	return sc.n.leader.pause(sc.n.life, scrubRest) == nil
}

// damage notes what was found, by name.
func (sc *scrubber) damage(what, name, why string) {
	sc.mu.Lock()
	if sc.found == nil {
		sc.found = make(map[string]uint64)
	}
	sc.found[what]++
	sc.mu.Unlock()
	sc.n.log.Error("scrubbing found damage", "what", what, "name", name, "damage", why)
}

// scrubLog reads every entry from the disk. The state in memory has what a damaged
// one did: a snapshot of it takes the place of the log up to there, as it does
// whenever raft cuts the log. The newest entry is left to the next pass: raft's own
// count ends with it.
func (sc *scrubber) scrubLog() error {
	first, last, err := sc.n.stores.Stored()
	if err != nil || first == 0 {
		return err
	}
	bad := uint64(0)
	for index := first; index <= last; index++ {
		var entry raft.Log
		err := sc.n.stores.ReadStored(index, &entry)
		if errors.Is(err, raft.ErrLogNotFound) {
			continue // cut meanwhile
		}
		if err != nil {
			if sc.n.stopping() {
				return nil // the file was closed
			}
			sc.damage(scrubLog, fmt.Sprintf("entry %d", index), err.Error())
			bad = index
		}
		if !sc.rest(len(entry.Data) + 64) {
			return nil
		}
	}
	if bad == 0 {
		return nil
	}
	return sc.cutDamaged(bad)
}

// cutDamaged puts a snapshot in the place of the log up to a damaged entry.
func (sc *scrubber) cutDamaged(bad uint64) error {
	f := sc.n.raft.Snapshot()
	if err := sc.n.settled(f); err != nil {
		return rota.Refusef(rota.KindUnavailable, "data", "entry %d of the log is damaged, and no snapshot could be written in its place: %v",
			bad, err)
	}
	meta, content, err := f.Open()
	if err != nil {
		return err
	}
	_ = content.Close()
	first, last, err := sc.n.stores.Stored()
	if err != nil {
		return err
	}
	if meta.Index < bad || last <= bad {
		return rota.Refusef(rota.KindUnavailable, "data", "entry %d of the log is damaged and no snapshot covers it yet: leave the node "+
			"running, it is tried again", bad)
	}
	// Snapshots before it have no log any more that they could go on with.
	if err := sc.n.audit.Reset(); err != nil {
		return err
	}
	kept, err := sc.n.snapshots.List()
	if err != nil {
		return err
	}
	var before []string
	for _, s := range kept {
		if s.Index < bad {
			before = append(before, s.ID)
		}
	}
	if err := sc.n.rebuilder.asideOf(before); err != nil {
		return err
	}
	if err := sc.n.stores.CutStored(first, bad); err != nil {
		return err
	}
	sc.n.audit.Offer(sc.n.snapshots.StateFile(meta.ID), meta.Index, sc.n.replica.freeze().Operations())
	sc.n.log.Warn("a damaged entry was cut off the log, a snapshot stands in its place", "entry", bad, "snapshot", meta.ID)
	return nil
}

// scrubSnapshots verifies raft's snapshots. One that is damaged is set aside, and a
// new one written: raft sends its newest to followers, whole or not.
func (sc *scrubber) scrubSnapshots() error {
	var bad []string
	if err := sc.n.snapshots.Verify(func(id, damage string) bool {
		if damage != "" {
			sc.damage(scrubSnapshot, id, damage)
			bad = append(bad, id)
		}
		return sc.rest(scrubBytes)
	}); err != nil || len(bad) == 0 || sc.n.stopping() {
		return err
	}
	// The new one first: a crash in between must find a state to start from.
	if err := sc.n.settled(sc.n.raft.Snapshot()); err != nil {
		return rota.Refusef(rota.KindUnavailable, "data", "snapshot %s is damaged, and no new one could be written: %v", bad[0], err)
	}
	return sc.n.rebuilder.asideOf(bad)
}

// scrubArchive verifies ended jobs; damaged ones are fetched from another node, and what
// finds them by their ids is restored from them.
func (sc *scrubber) scrubArchive() error {
	partial, err := sc.scrubMarks()
	if err != nil {
		return err
	}
	for next := uint64(1); next != 0; {
		var read int
		var damaged []uint64
		var err error
		if next, read, damaged, err = sc.n.beside.Jobs.Scrub(next, scrubBytes); err != nil {
			return err
		}
		if err := sc.dropFound(damaged); err != nil {
			return err
		}
		if !sc.rest(read) {
			return nil
		}
	}
	return sc.n.beside.Jobs.Mended(partial)
}

// scrubMarks verifies what finds ended jobs by their ids, and returns where it is incomplete.
func (sc *scrubber) scrubMarks() (partial []archive.IDSpan, err error) {
	for from := rota.JobID(""); ; {
		found, err := sc.n.beside.Jobs.ScrubMarks(from, scrubBytes)
		if err != nil {
			return nil, err
		}
		for range found.Torn {
			sc.damage(scrubArchive, fmt.Sprintf("list of ended jobs' ids from %q on", from), "its checksum does not match")
		}
		if err := sc.dropFound(found.Damaged); err != nil {
			return nil, err
		}
		partial = append(partial, found.Partial...)
		if from = found.Next; from == "" || !sc.rest(found.Read) {
			return partial, nil
		}
	}
}

// dropFound gives damaged ended jobs up, to be fetched from another node.
func (sc *scrubber) dropFound(damaged []uint64) error {
	for _, seq := range damaged {
		sc.damage(scrubArchive, fmt.Sprintf("ended job number %d", seq), "its checksum does not match")
	}
	if len(damaged) == 0 {
		return nil
	}
	return sc.n.beside.Jobs.Drop(damaged)
}

// scrubEvents verifies events; damaged chunks are fetched from another node.
func (sc *scrubber) scrubEvents() error {
	var bad []rota.Index
	sc.n.beside.Events.Walk(func(first, last rota.Index, entries []archive.EventEntry, err error) bool {
		if err != nil {
			sc.damage(scrubEvents, fmt.Sprintf("events of entries %d to %d", first, last), err.Error())
			bad = append(bad, first)
		}
		return sc.rest(scrubBytes)
	})
	for _, first := range bad {
		if err := sc.n.beside.Events.DropAt(first); err != nil {
			return err
		}
	}
	return nil
}

func (sc *scrubber) Problems() (problems []string) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, what := range []string{scrubLog, scrubSnapshot, scrubArchive, scrubEvents} {
		if text, ok := sc.open[what]; ok {
			problems = append(problems, "scrubbing the "+what+": "+text)
		}
	}
	return problems
}

func (sc *scrubber) Collectors() (all []prometheus.Collector) {
	for _, what := range []string{scrubLog, scrubSnapshot, scrubArchive, scrubEvents} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_scrub_damaged_total",
			Help: "What scrubbing found damaged.", ConstLabels: prometheus.Labels{"what": what}}, func() float64 {
			sc.mu.Lock()
			defer sc.mu.Unlock()
			return float64(sc.found[what])
		}))
	}
	return append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_scrub_passes_total",
		Help: "How often everything on the disk was read and verified."}, func() float64 {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		return float64(sc.passes)
	}))
}
