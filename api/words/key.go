package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// KeyRuleToWire converts a rule of a key.
func KeyRuleToWire(r *rota.KeyRule) *rotav1.KeyRule {
	return &rotav1.KeyRule{Queue: string(r.Queue), Name: r.Name, Value: r.Value, Scope: r.Scope.String(),
		Concurrency: r.Concurrency,
		Rate:        r.Rate, PeriodMs: r.PeriodMs, Burst: r.Burst, Sequence: r.Sequence.String(), Group: r.Group,
		Etag: r.ETag, Unit: r.Unit, DefaultCost: int64(r.DefaultCost), Breaker: breakerToWire(r.Breaker),
		RefuseFull: r.RefuseFull}
}

// KeyRuleFromWire is the inverse of KeyRuleToWire.
func KeyRuleFromWire(w *rotav1.KeyRule) (rota.KeyRule, error) {
	r := rota.KeyRule{Queue: rota.QueueName(w.GetQueue()), Name: w.GetName(), Value: w.GetValue(),
		Concurrency: w.GetConcurrency(),
		Rate:        w.GetRate(), PeriodMs: w.GetPeriodMs(), Burst: w.GetBurst(), Group: w.GetGroup(),
		ETag: w.GetEtag(), Unit: w.GetUnit(), DefaultCost: rota.Cost(w.GetDefaultCost()),
		RefuseFull: w.GetRefuseFull()}
	var err error
	if r.Breaker, err = breakerFromWire(w.GetBreaker()); err != nil {
		return r, err
	}
	if r.Scope, err = rota.ParseKeyScope(w.GetScope()); err != nil {
		return r, err
	}
	r.Sequence, err = rota.ParseKeySequence(w.GetSequence())
	return r, err
}

func breakerToWire(b rota.KeyBreaker) *rotav1.KeyBreaker {
	if b == (rota.KeyBreaker{}) {
		return nil
	}
	return &rotav1.KeyBreaker{Trip: b.Trip, Of: b.Of, OpenMs: b.OpenMs, Probes: b.Probes, Reasons: b.Reasons.Names()}
}

func breakerFromWire(w *rotav1.KeyBreaker) (rota.KeyBreaker, error) {
	reasons, err := rota.ParseReasons(w.GetReasons())
	return rota.KeyBreaker{Trip: w.GetTrip(), Of: w.GetOf(), OpenMs: w.GetOpenMs(), Probes: w.GetProbes(),
		Reasons: reasons}, err
}

// KeyRulesFromWire converts a list of rules.
func KeyRulesFromWire(w []*rotav1.KeyRule) ([]rota.KeyRule, error) {
	return tryEach(w, KeyRuleFromWire)
}

// KeyStateToWire converts the counts of a key.
func KeyStateToWire(k *rota.KeyState) *rotav1.KeyState {
	return &rotav1.KeyState{Queue: string(k.Queue), Tenant: string(k.Tenant), Key: k.Key, Jobs: k.Jobs, Open: k.Open,
		Full:   k.Full,
		NextMs: int64(k.Next.Date), NextClockMs: int64(k.Next.Clock), Head: string(k.Head), Blocker: string(k.Blocker),
		Concurrency: k.Concurrency, Rate: k.Rate, PeriodMs: k.PeriodMs, Tokens: k.Tokens,
		Unit: k.Unit, Debt: int64(k.Debt), Needed: int64(k.Needed), Pause: pauseToWire(k.Pause),
		Breaker: breakerStateToWire(k.Breaker)}
}

// KeyStateFromWire is the inverse of KeyStateToWire.
func KeyStateFromWire(w *rotav1.KeyState) (rota.KeyState, error) {
	breaker, err := breakerStateFromWire(w.GetBreaker())
	return rota.KeyState{Queue: rota.QueueName(w.GetQueue()), Tenant: rota.TenantID(w.GetTenant()), Key: w.GetKey(),
		Jobs: w.GetJobs(),
		Open: w.GetOpen(), Full: w.GetFull(), Next: moment(w.GetNextMs(), w.GetNextClockMs()),
		Head:    rota.JobID(w.GetHead()),
		Blocker: rota.JobID(w.GetBlocker()), Concurrency: w.GetConcurrency(), Rate: w.GetRate(),
		PeriodMs: w.GetPeriodMs(), Tokens: w.GetTokens(), Unit: w.GetUnit(), Debt: rota.Cost(w.GetDebt()),
		Needed: rota.Cost(w.GetNeeded()), Pause: pauseFromWire(w.GetPause()), Breaker: breaker}, err
}

func pauseToWire(p *rota.KeyPause) *rotav1.KeyPause {
	if p == nil {
		return nil
	}
	return &rotav1.KeyPause{SinceMs: int64(p.Since.Date), SinceClockMs: int64(p.Since.Clock),
		UntilMs: int64(p.Until.Date), UntilClockMs: int64(p.Until.Clock), By: string(p.By), Worker: string(p.Worker),
		Reason: p.Reason}
}

func pauseFromWire(w *rotav1.KeyPause) *rota.KeyPause {
	if w == nil {
		return nil
	}
	return &rota.KeyPause{Since: moment(w.SinceMs, w.SinceClockMs), Until: moment(w.UntilMs, w.UntilClockMs),
		By: rota.Principal(w.By), Worker: rota.WorkerID(w.Worker), Reason: w.Reason}
}

func breakerStateToWire(b *rota.KeyBreakerState) *rotav1.KeyBreakerState {
	if b == nil {
		return nil
	}
	w := &rotav1.KeyBreakerState{State: b.State.String(), Failures: b.Failures, UntilMs: int64(b.Until.Date),
		UntilClockMs: int64(b.Until.Clock), Probing: b.Probing, Opened: b.Opened}
	for _, f := range b.Latest {
		w.Latest = append(w.Latest, &rotav1.KeyFailure{Job: string(f.Job), Reason: f.Reason.String()})
	}
	return w
}

func breakerStateFromWire(w *rotav1.KeyBreakerState) (*rota.KeyBreakerState, error) {
	if w == nil {
		return nil, nil
	}
	state, err := rota.ParseBreakerState(w.State)
	b := &rota.KeyBreakerState{State: state, Failures: w.Failures, Until: moment(w.UntilMs, w.UntilClockMs),
		Probing: w.Probing, Opened: w.Opened}
	for _, f := range w.Latest {
		var reason rota.Reason
		if err == nil {
			err = reason.UnmarshalText([]byte(f.GetReason()))
		}
		b.Latest = append(b.Latest, rota.KeyFailure{Job: rota.JobID(f.GetJob()), Reason: reason})
	}
	return b, err
}

// KeyFilterFromWire converts the filter for keys.
func KeyFilterFromWire(w *rotav1.ListKeyStatesRequest) (rota.KeyFilter, error) {
	f := rota.KeyFilter{Queue: rota.QueueName(w.GetQueue()), Tenant: rota.TenantID(w.GetTenant()), Name: w.GetName(),
		Limit:  int(w.GetLimit()),
		Cursor: w.GetCursor()}
	var err error
	if f.Held, err = rota.ParseKeyHeld(w.GetHeld()); err == nil {
		f.By, err = rota.ParseKeyOrder(w.GetBy())
	}
	if err == nil {
		err = f.Check()
	}
	return f, err
}

// KeyStatesFromWire converts a list of states.
func KeyStatesFromWire(w []*rotav1.KeyState) ([]rota.KeyState, error) {
	return tryEach(w, KeyStateFromWire)
}
