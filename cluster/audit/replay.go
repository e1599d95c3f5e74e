package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/cron"
	"github.com/rotasched/rota/internal/limits"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Log is a readable range of the log.
type Log interface {
	GetLog(index uint64, entry *raft.Log) error
}

// auditor replays a range of the log and recomputes every round from the state at its height (SPEC §2.4). It uses the
// same function as leaders do.
type auditor struct {
	m      *fsm.Machine
	report rota.AuditReport
	// zones are the installed time zones opened last.
	zones *cron.Zones
	// heights are those where logged rounds were decided; decided holds the rounds decided on the state there, until
	// the log has passed them.
	heights map[rota.Index]bool
	decided map[rota.Index][]*fsmpb.Round
	// withAt holds the entries whose rounds were decided together with their submissions, by the height of the state;
	// with holds the rounds decided that way on that state, until the log has passed them.
	withAt map[rota.Index]uint64
	with   map[rota.Index][]*fsmpb.Round
	// known holds digests that snapshots along the way record for the state.
	known map[rota.Index]rota.Digest
	log   Log
}

// stretch replays the entries after m's state up to `to`, and ends at the first round that differs. Rounds decided on a
// state before m's are not counted: nothing here can prove them.
func stretch(ctx context.Context, m *fsm.Machine, log Log, to uint64, known map[rota.Index]rota.Digest,
) (rota.AuditReport, error) {
	a := &auditor{m: m, heights: make(map[rota.Index]bool), decided: make(map[rota.Index][]*fsmpb.Round),
		withAt: make(map[rota.Index]uint64), with: make(map[rota.Index][]*fsmpb.Round), known: known, log: log}
	from := uint64(m.Head().Index) + 1
	a.report = rota.AuditReport{From: rota.Index(from), To: rota.Index(to)}
	if err := walkLog(ctx, log, from, to, func(l *raft.Log) error {
		p, err := entry.Peek(rota.Index(l.Index), l.Data)
		if err == nil {
			for _, r := range p.Rounds {
				if height := rota.Index(r.GetHeight()); r.GetWith() == 0 {
					a.heights[height] = true
				} else if p.Term == l.Term { // otherwise it was dropped
					a.withAt[height] = l.Index
				}
			}
		}
		return err
	}); err != nil {
		return a.report, err
	}
	if err := a.decide(ctx); err != nil {
		return a.report, err
	}
	err := walkLog(ctx, log, from, to, func(l *raft.Log) error { return a.entry(ctx, l) })
	if errors.Is(err, errDiffers) {
		err = nil
	}
	return a.report, err
}

var errDiffers = errors.New("a round differs")

// walkLog calls visit for the commands in a range of the log, in order.
func walkLog(ctx context.Context, log Log, from, to uint64, visit func(*raft.Log) error) error {
	for i := from; i <= to; i++ {
		if i%1024 == 0 && ctx.Err() != nil {
			return &rota.Error{Kind: rota.KindTimeout, Text: fmt.Sprintf("the replay was ended at entry %d of %d", i,
				to),
				Cause: ctx.Err()}
		}
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			return &rota.Error{Kind: rota.KindOutOfRange, Subject: "index",
				Text:  fmt.Sprintf("entry %d cannot be read: the log is kept in part only, or is damaged there", i),
				Cause: err}
		}
		if l.Type != raft.LogCommand {
			continue
		}
		if err := visit(&l); err != nil {
			return err
		}
	}
	return nil
}

// decide computes what a leader on this exact state would decide, if the log shows that one did, including the
// submissions of a later entry if the log shows that.
func (a *auditor) decide(ctx context.Context) error {
	index := a.m.Head().Index
	if a.heights[index] {
		a.decided[index] = a.m.Decide(limits.MaxDecide)
	}
	at, ok := a.withAt[index]
	if !ok {
		return nil
	}
	return walkLog(ctx, a.log, at, at, func(l *raft.Log) error {
		p, err := entry.Peek(rota.Index(l.Index), l.Data)
		if err == nil {
			a.with[index] = a.m.DecideWith(&fsm.Arrivals{Ops: p.Ops, Now: p.Now}, limits.MaxDecide)
		}
		return err
	})
}

// entry applies an entry, compares its rounds, and decides where the log has a round.
func (a *auditor) entry(ctx context.Context, l *raft.Log) error {
	p, err := entry.Peek(rota.Index(l.Index), l.Data)
	if err != nil {
		return err
	}
	fires := a.recalculate(p.Fires)
	applied, err := a.m.Apply(rota.Index(l.Index), l.Term, l.Data)
	if err != nil {
		return err
	}
	if applied.Term == p.Term && applied.Stamped {
		if err := a.fires(&applied, p.Fires, fires); err != nil {
			return err
		}
	}
	a.report.Entries++
	a.report.Operations += uint64(p.Operations)
	for i := range p.Rounds {
		// A round decided in an ended leadership was dropped: it does not count.
		if applied.Term == p.Term && applied.Stamped {
			if err := a.compare(l.Index, p.Rounds[i]); err != nil {
				return err
			}
		}
	}
	if want, ok := a.known[applied.Index]; ok && want != applied.Digest {
		a.report.Difference = &rota.AuditDifference{Index: applied.Index, Logged: "digest " + want.String(),
			Proved: "digest " + applied.Digest.String()}
		return errDiffers
	}
	return a.decide(ctx)
}

// compare proves one logged round, or reports how it differs.
func (a *auditor) compare(index uint64, logged *fsmpb.Round) error {
	height := rota.Index(logged.GetHeight())
	if height < a.report.From-1 {
		return nil // decided on a state before the first one here
	}
	a.report.Rounds++
	for h := range a.decided {
		if h < height { // one entry of rounds is in flight: the log is past it
			delete(a.decided, h)
		}
	}
	for h := range a.with {
		if h < height {
			delete(a.with, h)
		}
	}
	var proved *fsmpb.Round
	rounds := a.decided[height]
	if logged.GetWith() > 0 {
		rounds = a.with[height]
	}
	for _, r := range rounds {
		if r.GetEpoch() == logged.GetEpoch() {
			proved = r
		}
	}
	if proved != nil && proto.Equal(proved, logged) {
		a.report.Proved++
		return nil
	}
	was, is := RoundTexts(logged, proved)
	a.report.Difference = &rota.AuditDifference{Index: rota.Index(index), Epoch: logged.GetEpoch(), Height: height,
		Queue: rota.QueueName(logged.GetQueue()), Logged: was, Proved: is}
	return errDiffers
}

// RoundTexts formats two rounds that differ for display, without the pairs that both begin with, so that the difference
// comes before the point where a long text is cut.
func RoundTexts(logged, proved *fsmpb.Round) (was, is string) {
	if proved == nil {
		return roundText(logged), roundText(nil)
	}
	a, b := logged.GetPairs(), proved.GetPairs()
	same := 0
	for same < min(len(a), len(b)) && proto.Equal(a[same], b[same]) {
		same++
	}
	after := func(r *fsmpb.Round) string {
		rest := proto.CloneOf(r)
		rest.Pairs = rest.Pairs[same:]
		text := roundText(rest)
		if same > 0 {
			text = fmt.Sprintf("after %d equal pairs: %s", same, text)
		}
		return text
	}
	return after(logged), after(proved)
}

// roundText formats a round for display, cut if it is long.
func roundText(r *fsmpb.Round) string {
	if r == nil {
		return "no such round is decided on the state at that height"
	}
	text := protojson.MarshalOptions{}.Format(r)
	if len(text) > 2_000 {
		text = text[:2_000] + "…"
	}
	return text
}
