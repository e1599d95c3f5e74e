package keys

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// pauseKey pauses a key, or resumes it. The later of two pauses applies, so a repetition changes nothing.
func (kr *Keyring) pauseKey(op *fsmpb.PauseKey) *fsmpb.Outcome {
	h := keyHold{tenant: rota.TenantID(op.GetTenant()), key: op.GetKey()}
	queue := rota.QueueName(op.GetQueue())
	name, value, _ := strings.Cut(h.key, ":")
	if value == "" {
		return entry.Refused(rota.Malformed("key", h.key, "use NAME:VALUE"))
	}
	if err := (&rota.KeyRule{Queue: queue, Name: name, Value: value}).Check(); err != nil {
		return entry.Refused(err)
	}
	if h.tenant != "" {
		if err := rota.CheckID("tenant", h.tenant); err != nil {
			return entry.Refused(err)
		}
	}
	h.rule = kr.rule(queue, name, value)
	if h.rule == nil || (h.rule.Scope == rota.KeyOfCluster) != (h.tenant == "") {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "key",
			"no rule with this scope applies to key %s of %s in %s: give the queue and scope shown by `rota key list`, or create a rule with `rota key set %s`",
			h.key, tenantOfKey(h.tenant), queueOfKey(queue), h.key))
	}
	h.count = state.KeyCountKey(queue, h.tenant, h.key)
	if !op.GetPaused() {
		return kr.resume(&h)
	}
	now := kr.s.Header.Now()
	to := state.Pause{On: true, Since: now, Until: now.On(rota.Date(op.GetUntilMs())),
		By: kr.s.Journal.Caller.Actor, Reason: state.Tail(op.GetReason(), limits.MaxReasonBytes)}
	if until := op.GetUntilMs(); until != 0 && (until <= int64(now.Date) ||
		until > int64(now.Date)+int64(rota.MaxKeyPause)) {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "until", "until: got %s, want a date within a year from %s",
			rota.Date(until), now.Date))
	}
	if kr.CountRows.Get(h.count) == nil {
		if kr.CountRows.Len() >= limits.MaxKeyCounts {
			return entry.Refused(refuse.Exhausted("keys", "%d keys are counted: no more are taken",
				limits.MaxKeyCounts))
		}
		if err := kr.ports.AdmitBytes(nil, "", 1); err != nil {
			return entry.Refused(err)
		}
	}
	if !kr.pause(&h, to) {
		return &fsmpb.Outcome{Existed: true}
	}
	return &fsmpb.Outcome{}
}

// pause applies a pause to a count; false if the present one lasts as long.
func (kr *Keyring) pause(h *keyHold, to state.Pause) bool {
	if c := kr.CountRows.Get(h.count); c != nil {
		if present := c.Pause; !present.Extend(to) {
			return false
		}
	}
	c := kr.counted(h)
	c.Pause.Extend(to)
	kr.tellStop(rota.EventKeyPaused, c, c.Pause.Reason)
	kr.settle(c, h.rule)
	return true
}

func (kr *Keyring) resume(h *keyHold) *fsmpb.Outcome {
	c := kr.CountRows.Get(h.count)
	if c == nil || !c.Pause.On && c.Breaker.State == rota.BreakerClosed {
		return &fsmpb.Outcome{Existed: true}
	}
	c = kr.CountRows.Edit(h.count)
	if c.Pause.On {
		c.Pause = state.Pause{}
		kr.tellStop(rota.EventKeyResumed, c, "resumed")
	}
	if c.Breaker.State != rota.BreakerClosed {
		kr.close(c, "resumed")
	}
	kr.settle(c, h.rule)
	return &fsmpb.Outcome{}
}

// CheckPause refuses a handler's pause of a key that its job does not have, or without a time.
func CheckPause(op *fsmpb.LeaseOp, s *rota.JobSpec) error {
	key := op.GetPauseKey()
	if key == "" {
		return nil
	}
	if peer.FailKind(op.GetFail()) != peer.FailSnooze {
		return rota.Refusef(rota.KindInvalid, "pause_key", "pause_key: got %.80q; only SNOOZE has it", key)
	}
	if !slices.Contains(s.Keys, key) {
		return rota.Refusef(rota.KindInvalid, "pause_key", "pause_key: got %.80q, want a key of the job: %s", key,
			strings.Join(s.Keys, ", "))
	}
	return nil
}

// PauseBy applies the pause that a handler asked for to the counts of its job's key. A key without a rule is none.
func (kr *Keyring) PauseBy(l *state.LeaseRow, s *rota.JobSpec, op *fsmpb.LeaseOp) {
	if op.GetPauseKey() == "" {
		return
	}
	now := kr.s.Header.Now()
	to := state.Pause{On: true, Since: now, Until: now.At(now.Clock + rota.Clock(op.GetAfterMs())),
		Worker: l.Worker}
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(s, room[:0]) {
		if h.key == op.GetPauseKey() {
			kr.pause(&h, to)
		}
	}
}

// judge counts the end of an attempt for its key's breaker; c is editable.
func (kr *Keyring) judge(c *state.KeyCountRow, r *state.KeyRuleRow, l *state.LeaseRow, why rota.Reason) {
	b := &c.Breaker
	if r.Breaker.Trip == 0 || l.Token.Counter <= b.After {
		return // it started before the key opened
	}
	probe, failed := b.State == rota.BreakerProbing, r.Breaker.Failure(why)
	if probe {
		b.Probing--
	}
	if !failed && why != rota.ReasonDone {
		return
	}
	b.Last = kr.s.Header.Clock
	if failed {
		b.Remember(rota.KeyFailure{Job: l.Job, Reason: why})
	}
	switch {
	case probe && failed:
		kr.open(c, r, "a probe failed")
	case probe:
		if b.Passed++; b.Passed >= r.Breaker.Width() {
			kr.close(c, "its probes succeeded")
		}
	default:
		if b.Note(failed, r.Breaker.Window()) >= r.Breaker.Trip {
			kr.open(c, r, fmt.Sprintf("%d of %d attempts failed", r.Breaker.Trip, r.Breaker.Window()))
		}
	}
}

// open stops the jobs of a count for a time; c is editable.
func (kr *Keyring) open(c *state.KeyCountRow, r *state.KeyRuleRow, why string) {
	b, now := &c.Breaker, kr.s.Header.Clock
	b.Opened++
	*b = state.Breaker{State: rota.BreakerOpen, Last: now, Until: now + rota.Clock(r.Breaker.Open(b.Opened)),
		After: kr.s.Header.Tokens, Opened: b.Opened, Latest: b.Latest}
	kr.tellStop(rota.EventKeyOpened, c, why)
}

// close lets the jobs of a count start again; c is editable.
func (kr *Keyring) close(c *state.KeyCountRow, why string) {
	c.Breaker = c.Breaker.Closed()
	kr.tellStop(rota.EventKeyClosed, c, why)
}

// advanceStops ends what time has ended: a pause, the open time of a breaker, and the memory of one without jobs; c is
// editable, and r is its rule.
func (kr *Keyring) advanceStops(c *state.KeyCountRow, r *state.KeyRuleRow) {
	now := kr.s.Header.Clock
	if c.Pause.On && !c.Pause.Until.IsZero() && c.Pause.Until.Clock <= now {
		c.Pause = state.Pause{}
		kr.tellStop(rota.EventKeyResumed, c, "its time is over")
	}
	b := &c.Breaker
	if b.State == rota.BreakerOpen && b.Until <= now {
		b.State, b.Last, b.Until = rota.BreakerProbing, now, 0
		if planted.staysOpen() {
			b.State, b.Until = rota.BreakerOpen, now+rota.MaxKeyOpen
		}
	}
	if c.Jobs == 0 && c.Open == 0 && b.Last+limits.KeyMemory <= now && b.State != rota.BreakerOpen && !b.Idle() {
		if b.State != rota.BreakerClosed {
			kr.close(c, "nothing happened for an hour")
		}
		*b = state.Breaker{}
	}
	if b.State != rota.BreakerClosed && r.Breaker.Trip == 0 {
		kr.close(c, "its rule has no breaker")
	}
	switch {
	case r.Breaker.Trip == 0 || c.Open == 0 && b.Idle():
		*b = state.Breaker{}
	case b.Idle():
		*b = b.Closed() // snapshots omit everything else
	}
}

// noteStop lists a count among those that are stopped, or no longer.
func (kr *Keyring) noteStop(c *state.KeyCountRow) {
	if c.Pause.On || c.Breaker.State != rota.BreakerClosed {
		kr.stopped.Insert(c.Key)
	} else if kr.stopped.Len() > 0 {
		kr.stopped.Delete(c.Key)
	}
}

// stopDue returns when advanceStops is next needed, 0 for never.
func stopDue(c *state.KeyCountRow) (due rota.Clock) {
	if c.Pause.On {
		due = c.Pause.Until.Clock
	}
	switch b := &c.Breaker; {
	case b.State == rota.BreakerOpen:
		due = state.Sooner(due, b.Until)
	case !b.Idle() && c.Jobs == 0 && c.Open == 0:
		due = state.Sooner(due, b.Last+limits.KeyMemory)
	}
	return due
}

// stops calls note with each reason why a pause or a breaker blocks a job, until note returns false.
func (kr *Keyring) stops(c *state.KeyCountRow, h *keyHold, note func(reason, detail string) bool) bool {
	if p := &c.Pause; p.On {
		text := "until it is resumed"
		if !p.Until.IsZero() {
			text = "until " + p.Until.Date.String()
		}
		if p.Worker != "" {
			text += " by a handler on worker " + string(p.Worker)
		} else if p.By != "" {
			text += " by " + string(p.By)
		}
		if p.Reason != "" {
			text += ": " + p.Reason
		}
		if !note("KEY_PAUSED", fmt.Sprintf("key %s is paused %s", c.Text, text)) {
			return false
		}
	}
	b, rule := &c.Breaker, h.rule.Breaker
	switch {
	case b.State == rota.BreakerOpen:
		return note("KEY_OPEN", fmt.Sprintf("key %s is open after %s; a probe may start at %s", c.Text, failuresText(b),
			kr.s.Header.Now().At(b.Until).Date))
	case b.State == rota.BreakerProbing && b.Probing >= rule.Width():
		return note("KEY_OPEN", fmt.Sprintf("key %s is open after %s; it waits for the end of %d probes", c.Text,
			failuresText(b), b.Probing))
	}
	return true
}

// failuresText describes what opened a breaker. It names no jobs, which the reader may not be allowed to read.
func failuresText(b *state.Breaker) string {
	reasons := make([]string, len(b.Latest))
	for i, f := range b.Latest {
		reasons[i] = f.Reason.String()
	}
	text := "failures, the latest " + strings.Join(reasons, ", ")
	if b.Opened > 1 {
		text += fmt.Sprintf(", for the %d. time", b.Opened)
	}
	return text
}

// RefuseFull refuses a job that could not start now, or would have to wait for those that are QUEUED, because of a rule
// that asks for that.
func (kr *Keyring) RefuseFull(s *rota.JobSpec) error {
	if kr.units == 0 {
		return nil
	}
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(s, room[:0]) {
		c := kr.CountRows.Get(h.count)
		if !h.rule.RefuseFull || c == nil {
			continue
		}
		waits, why := kr.queued[h.count], ""
		switch stopped, _ := c.Stopped(h.rule); {
		case c.Pause.On:
			why = "it is paused"
		case c.Breaker.State == rota.BreakerOpen || c.Breaker.State == rota.BreakerProbing &&
			(stopped || waits.jobs >= kr.Left(c, h.rule)):
			why = "its breaker is " + c.Breaker.State.String()
		case c.Full || waits.jobs >= kr.Left(c, h.rule) || kr.exceeds(c, h.rule, waits.amount, h.rule.CostOf(s)):
			why = fmt.Sprintf("its limit is reached, with %d jobs that wait", waits.jobs)
		default:
			continue
		}
		return refuse.Exhausted("keys",
			"key %s is full: %s, and its rule refuses jobs that cannot start; submit it later",
			h.key, why)
	}
	return nil
}

// exceeds reports whether a job's estimate does not fit below the burst of a weighted rate, after QUEUED jobs.
func (kr *Keyring) exceeds(c *state.KeyCountRow, r *state.KeyRuleRow, queued state.Int128, amount int64) bool {
	if r.Unit == "" {
		return false
	}
	used := kr.Owed(c, r).Quotient(r.PeriodMs, 2*rota.MaxCost) + queued.Quotient(1, 2*rota.MaxCost)
	return used > 0 && used+min(amount, r.BurstCost()) > r.BurstCost()
}

// tellStop emits an event about a pause or a breaker.
func (kr *Keyring) tellStop(kind rota.EventKind, c *state.KeyCountRow, why string) {
	stop := keyStopped{Key: c.Text, Why: why}
	switch now := kr.s.Header.Now(); kind {
	case rota.EventKeyPaused:
		stop.Until, stop.By, stop.Worker = c.Pause.Until.Date, c.Pause.By, c.Pause.Worker
	case rota.EventKeyOpened:
		stop.Until, stop.Latest = now.At(c.Breaker.Until).Date, c.Breaker.Latest
	}
	text := c.Text
	if why != "" {
		text += ": " + why
	}
	kr.s.Journal.Emit(rota.Event{Kind: kind, Queue: c.Queue, Tenant: c.Tenant, Text: text,
		Payload: state.Payload(stop)})
}

// keyStopped is the payload of keyPaused, keyResumed, keyOpened and keyClosed.
type keyStopped struct {
	Key    string            `json:"key"`
	Why    string            `json:"why,omitempty"`
	Until  rota.Date         `json:"until,omitempty"`
	By     rota.Principal    `json:"by,omitempty"`
	Worker rota.WorkerID     `json:"worker,omitempty"`
	Latest []rota.KeyFailure `json:"latest,omitempty"`
}

// tenantOfKey names the tenant of a key in a refusal. An empty tenant means that the keys of all tenants count as one.
func tenantOfKey(t rota.TenantID) string {
	if t == "" {
		return "all tenants together"
	}
	return fmt.Sprintf("tenant %.80q", t)
}

// queueOfKey names the queue of a key's rule in a refusal.
func queueOfKey(q rota.QueueName) string {
	if q == "" {
		return "all queues together"
	}
	return fmt.Sprintf("queue %.80q", q)
}
