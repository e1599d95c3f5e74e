package rebuild

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// adopt makes a fetched state this node's, after applying the entries that follow it in this node's log. It continues
// as long as it makes progress: a large state's log may be long, and grows meanwhile.
func (rb *Rebuilder) adopt(m *fsm.Machine) error {
	at := m.Head().Index
	var seen [2]rota.Index
	moved := time.Now()
	for {
		newest := rb.host.State.Newest()
		if err := rb.replayOwn(m, &at, newest); err != nil {
			return err
		}
		if newest >= m.Head().Index && rb.install(m, &at) {
			return nil
		}
		if now := [2]rota.Index{at, newest}; now != seen {
			seen, moved = now, time.Now()
		}
		if time.Since(moved) > rebuildAgree {
			return rota.Refusef(rota.KindUnavailable, "rebuild",
				"this node's log has come to entry %d, the fetched state is that of entry %d",
				newest, m.Head().Index)
		}
		if err := rb.host.pause(rb.host.Life, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// adoptHere is how many entries are applied while applying is blocked.
const adoptHere = 256

// install puts the state in place if only a few entries are missing, which it applies first; at is the last applied
// entry.
func (rb *Rebuilder) install(m *fsm.Machine, at *rota.Index) bool {
	var head fsm.Head // read before raft continues applying to m
	installed := rb.host.State.Install(m, func(newest rota.Index) error {
		if newest > *at+adoptHere || newest < m.Head().Index {
			return errBehind
		}
		err := rb.replayOwn(m, at, newest)
		head = m.Head()
		return err
	})
	if installed {
		rb.host.Log.Warn("the state is rebuilt: this node serves again", "index", uint64(head.Index), "digest",
			head.Digest.String())
	}
	return installed
}

// errBehind is returned while a state is too old to be put in place.
var errBehind = errors.New("the state is not that of the newest entry")

// replayOwn applies entries of this node's own log to a state that is not served.
func (rb *Rebuilder) replayOwn(m *fsm.Machine, at *rota.Index, to rota.Index) error {
	for *at < to {
		if rb.host.Life.Err() != nil {
			return context.Cause(rb.host.Life)
		}
		var entry raft.Log
		next := *at + 1
		if err := rb.host.Stores.Log.GetLog(uint64(next), &entry); err != nil {
			return &rota.Error{Kind: rota.KindUnavailable, Subject: "rebuild", Cause: err,
				Text: fmt.Sprintf("entry %d, which the fetched state lacks, is not in this node's log", next)}
		}
		if entry.Type == raft.LogCommand {
			if _, err := m.Apply(next, entry.Term, entry.Data); err != nil {
				return err
			}
		}
		*at = next
	}
	return nil
}
