package state

import (
	"math/bits"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// Pause holds the jobs of a key (SPEC §30.3).
type Pause struct {
	On    bool
	Since rota.Moment
	// Until is zero if the key is paused until it is resumed. Its clock ends it.
	Until rota.Moment
	// By is who paused it. If a handler did, Worker is its worker, and there is no reason: its text is its job's, which
	// not every reader of the key may read.
	By     rota.Principal
	Worker rota.WorkerID
	Reason string
}

// Extend applies a pause that begins, unless the present one lasts as long by the clock, which ends both; it reports
// whether it did.
func (p *Pause) Extend(to Pause) bool {
	if p.On && (p.Until.IsZero() || !to.Until.IsZero() && to.Until.Clock <= p.Until.Clock) {
		return false
	}
	if p.On {
		to.Since = p.Since
	}
	*p = to
	return true
}

func (p *Pause) canonical(e *Encoder) {
	e.Bool(p.On)
	if !p.On {
		return
	}
	e.Moment(p.Since)
	e.Moment(p.Until)
	e.Str(string(p.By))
	e.Str(string(p.Worker))
	e.Str(p.Reason)
}

func decodePause(d *Decoder) Pause {
	if !d.Bool() {
		return Pause{}
	}
	return Pause{On: true, Since: d.Moment(), Until: d.Moment(), By: rota.Principal(d.Str()),
		Worker: rota.WorkerID(d.Str()), Reason: d.Str()}
}

// Breaker counts the outcomes of a key's attempts (SPEC §30.4).
type Breaker struct {
	State rota.BreakerState
	// Outcomes has a bit for each of the last outcomes, the newest lowest: 1 for a failure. Earlier successes are the
	// same as none.
	Outcomes uint64
	// Last is when an outcome or the state last changed. Until is when an open breaker starts to probe.
	Last, Until rota.Clock
	// After is the newest fencing token when it last opened: outcomes of attempts that started before are not counted.
	After uint64
	// Probing counts the probes that are open, Passed those that succeeded; Opened is how often it has opened since it
	// was last closed.
	Probing, Passed, Opened int64
	Latest                  []rota.KeyFailure
}

// Idle reports whether a key without jobs needs no memory of it.
func (b *Breaker) Idle() bool { return b.State == rota.BreakerClosed && b.Outcomes == 0 }

// Closed returns a breaker that was closed.
func (b *Breaker) Closed() Breaker { return Breaker{After: b.After} }

// Note adds an outcome, and returns how many of the last ones are failures.
func (b *Breaker) Note(failed bool, window int64) int64 {
	b.Outcomes <<= 1
	if failed {
		b.Outcomes |= 1
	}
	b.Outcomes &= 1<<window - 1
	return int64(bits.OnesCount64(b.Outcomes))
}

// Remember adds a failure to the latest.
func (b *Breaker) Remember(f rota.KeyFailure) {
	b.Latest = append(slices.Clip(b.Latest[max(0, len(b.Latest)-limits.MaxKeyFailures+1):]), f)
}

func (b *Breaker) isZero() bool { return b.Idle() && b.After == 0 }

func (b *Breaker) canonical(e *Encoder) {
	e.Uint(uint64(b.State))
	e.Uint(b.Outcomes)
	e.Int(int64(b.Last))
	e.Int(int64(b.Until))
	e.Uint(b.After)
	e.Int(b.Probing)
	e.Int(b.Passed)
	e.Int(b.Opened)
	e.Uint(uint64(len(b.Latest)))
	for _, f := range b.Latest {
		e.Str(string(f.Job))
		e.Uint(uint64(f.Reason))
	}
}

func decodeBreaker(d *Decoder) Breaker {
	b := Breaker{State: rota.BreakerState(d.Enum(uint64(rota.BreakerProbing))), Outcomes: d.Uint(),
		Last: rota.Clock(d.Int()), Until: rota.Clock(d.Int()), After: d.Uint(), Probing: d.Int(), Passed: d.Int(),
		Opened: d.Int()}
	n := d.Count(limits.MaxKeyFailures)
	if b.Probing < 0 || b.Passed < 0 || b.Opened < 0 {
		d.Fail()
		return b
	}
	for range n {
		b.Latest = append(b.Latest, rota.KeyFailure{Job: rota.JobID(d.Str()),
			Reason: rota.Reason(d.Enum(uint64(rota.ReasonLast)))})
	}
	return b
}

// Stopped reports whether no job of the count may start because of its pause or its breaker; left is how many more
// probes may start, if it is probing.
func (r *KeyCountRow) Stopped(rule *KeyRuleRow) (stopped bool, left int64) {
	switch {
	case r.Pause.On || r.Breaker.State == rota.BreakerOpen:
		return true, 0
	case r.Breaker.State == rota.BreakerProbing:
		left = max(0, rule.Breaker.Width()-r.Breaker.Probing)
		return left == 0, left
	}
	return false, 0
}

// stoppedUntil returns when the pause and the open time of the breaker end, 0 if no date is known.
func (r *KeyCountRow) stoppedUntil() rota.Clock {
	if r.Pause.On && r.Pause.Until.IsZero() || r.Breaker.State == rota.BreakerProbing {
		return 0
	}
	return max(r.Pause.Until.Clock, r.Breaker.Until)
}

// pauseWords returns the pause in its public form, nil if there is none.
func (r *KeyCountRow) pauseWords() *rota.KeyPause {
	p := &r.Pause
	if !p.On {
		return nil
	}
	return &rota.KeyPause{Since: p.Since, Until: p.Until, By: p.By, Worker: p.Worker, Reason: p.Reason}
}

// breakerWords returns the breaker in its public form, nil if the rule has none.
func (r *KeyCountRow) breakerWords(rule *KeyRuleRow, now rota.Moment) *rota.KeyBreakerState {
	b := &r.Breaker
	if rule.Breaker.Trip == 0 {
		return nil
	}
	k := &rota.KeyBreakerState{State: b.State, Failures: int64(bits.OnesCount64(b.Outcomes)), Probing: b.Probing,
		Opened: b.Opened, Latest: slices.Clone(b.Latest)}
	if b.State == rota.BreakerOpen {
		k.Until = now.At(b.Until)
	}
	return k
}
