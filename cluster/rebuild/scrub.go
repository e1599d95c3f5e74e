package rebuild

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

const (
	// scrubBytes is how many bytes are read between two pauses of scrubRest: at most 20 MiB/s.
	scrubBytes = 1 << 20
	scrubRest  = 50 * time.Millisecond
)

// Scrubber reads data that is otherwise not read for months, so that damage is found while other nodes still have the
// data. It repairs damage from the state in memory (log, snapshots) or from another node (ended jobs, events).
type Scrubber struct {
	host Host
	mu   sync.Mutex
	// found counts damage by kind; open names damage not yet repaired.
	found map[string]uint64
	open  map[string]string
	// passes counts complete passes.
	passes uint64
	// read counts bytes since the last pause.
	read int
}

// The kinds of damage.
const (
	scrubLog      = "log"
	scrubSnapshot = "snapshot"
	scrubArchive  = "archive"
	scrubEvents   = "events"
)

// NewScrubber returns the scrubber of a node.
func NewScrubber(host Host) *Scrubber {
	return &Scrubber{host: host, found: make(map[string]uint64), open: make(map[string]string)}
}

// Pass reads everything once.
func (sc *Scrubber) Pass() {
	for _, part := range []struct {
		what string
		do   func() error
	}{{scrubLog, sc.scrubLog}, {scrubSnapshot, sc.scrubSnapshots}, {scrubArchive, sc.scrubArchive}, {scrubEvents,
		sc.scrubEvents}} {
		err := part.do()
		if sc.host.Life.Err() != nil {
			return
		}
		sc.mu.Lock()
		if delete(sc.open, part.what); err != nil {
			sc.open[part.what] = err.Error()
		}
		sc.mu.Unlock()
		if err != nil {
			sc.host.Log.Error("scrubbing found damage that it cannot repair", "what", part.what, "err", err)
		}
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.passes++
}

// rest limits the rate; false means that the node stops.
func (sc *Scrubber) rest(read int) bool {
	sc.mu.Lock()
	sc.read += read
	full := sc.read >= scrubBytes
	if full {
		sc.read = 0
	}
	sc.mu.Unlock()
	if !full {
		return sc.host.Life.Err() == nil
	}
	return sc.host.pause(sc.host.Life, scrubRest) == nil
}

// damage records a finding by name.
func (sc *Scrubber) damage(what, name, why string) {
	sc.mu.Lock()
	sc.found[what]++
	sc.mu.Unlock()
	sc.host.Log.Error("scrubbing found damage", "what", what, "name", name, "damage", why)
}

// scrubLog reads every entry from the disk. The state in memory includes the effect of a damaged entry, so a snapshot
// of it replaces the log up to there, as whenever raft cuts the log. The newest entry is left to the next pass, because
// raft's own count ends with it.
func (sc *Scrubber) scrubLog() error {
	first, last, err := sc.host.Stores.Stored()
	if err != nil || first == 0 {
		return err
	}
	bad := uint64(0)
	for index := first; index <= last; index++ {
		var entry raft.Log
		err := sc.host.Stores.ReadStored(index, &entry)
		if errors.Is(err, raft.ErrLogNotFound) {
			continue // cut in the meantime
		}
		if err != nil {
			if sc.host.Life.Err() != nil {
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

// cutDamaged replaces the log up to a damaged entry with a snapshot.
func (sc *Scrubber) cutDamaged(bad uint64) error {
	meta, err := sc.host.Snapshot()
	if err != nil {
		return rota.Refusef(rota.KindUnavailable, "data",
			"entry %d of the log is damaged, and no snapshot could be written in its place: %v",
			bad, err)
	}
	first, last, err := sc.host.Stores.Stored()
	if err != nil {
		return err
	}
	if meta.Index < bad || last <= bad {
		return rota.Refusef(rota.KindUnavailable, "data",
			"entry %d of the log is damaged and no snapshot covers it yet: leave the node "+
				"running, it is tried again", bad)
	}
	// The log that earlier snapshots would continue with is gone.
	if err := sc.host.Audit.Reset(); err != nil {
		return err
	}
	kept, err := sc.host.Snapshots.List()
	if err != nil {
		return err
	}
	var before []string
	for _, s := range kept {
		if s.Index < bad {
			before = append(before, s.ID)
		}
	}
	if err := sc.host.setAside(sc.host.Log, before); err != nil {
		return err
	}
	if err := sc.host.Stores.CutStored(first, bad); err != nil {
		return err
	}
	var head fsm.Head
	sc.host.State.Look(func(s *fsm.View) { head = s.Head() })
	sc.host.Audit.Offer(sc.host.Snapshots.StateFile(meta.ID), meta.Index, head.Operations)
	sc.host.Log.Warn("a damaged entry was cut off the log, and replaced by a snapshot", "entry", bad, "snapshot",
		meta.ID)
	return nil
}

// scrubSnapshots verifies raft's snapshots. It sets a damaged one aside and writes a new one: raft sends its newest to
// followers, whole or not.
func (sc *Scrubber) scrubSnapshots() error {
	var bad []string
	if err := sc.host.Snapshots.Verify(func(id, damage string) bool {
		if damage != "" {
			sc.damage(scrubSnapshot, id, damage)
			bad = append(bad, id)
		}
		return sc.rest(scrubBytes)
	}); err != nil || len(bad) == 0 || sc.host.Life.Err() != nil {
		return err
	}
	// Write the new one first: after a crash in between there must be a state to start from.
	if _, err := sc.host.Snapshot(); err != nil {
		return rota.Refusef(rota.KindUnavailable, "data", "snapshot %s is damaged, and no new one could be written: %v",
			bad[0], err)
	}
	return sc.host.setAside(sc.host.Log, bad)
}

// scrubArchive verifies ended jobs; damaged ones are fetched from another node, and their index by id is restored from
// the records. Then they are compared with the other nodes'.
func (sc *Scrubber) scrubArchive() error {
	found := func(name, why string) { sc.damage(scrubArchive, name, why) }
	if err := sc.host.File.ScrubJobs(scrubBytes, found, sc.rest); err != nil {
		return err
	}
	return sc.host.Archive.Compare(found, sc.rest)
}

// scrubEvents verifies events; damaged chunks are fetched from another node.
func (sc *Scrubber) scrubEvents() error {
	return sc.host.File.ScrubEvents(scrubBytes, func(name, why string) { sc.damage(scrubEvents, name, why) }, sc.rest)
}

// Problems lists damage that is not yet repaired.
func (sc *Scrubber) Problems() (problems []string) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, what := range []string{scrubLog, scrubSnapshot, scrubArchive, scrubEvents} {
		if text, ok := sc.open[what]; ok {
			problems = append(problems, "scrubbing the "+what+": "+text)
		}
	}
	return problems
}

// Collectors returns the metrics of scrubbing.
func (sc *Scrubber) Collectors() (all []prometheus.Collector) {
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
