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
		Etag: r.ETag, Unit: r.Unit, DefaultCost: int64(r.DefaultCost)}
}

// KeyRuleFromWire is the inverse of KeyRuleToWire.
func KeyRuleFromWire(w *rotav1.KeyRule) (rota.KeyRule, error) {
	r := rota.KeyRule{Queue: rota.QueueName(w.GetQueue()), Name: w.GetName(), Value: w.GetValue(),
		Concurrency: w.GetConcurrency(),
		Rate:        w.GetRate(), PeriodMs: w.GetPeriodMs(), Burst: w.GetBurst(), Group: w.GetGroup(),
		ETag: w.GetEtag(), Unit: w.GetUnit(), DefaultCost: rota.Cost(w.GetDefaultCost())}
	var err error
	if r.Scope, err = rota.ParseKeyScope(w.GetScope()); err != nil {
		return r, err
	}
	r.Sequence, err = rota.ParseKeySequence(w.GetSequence())
	return r, err
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
		Unit: k.Unit, Debt: int64(k.Debt), Needed: int64(k.Needed)}
}

// KeyStateFromWire is the inverse of KeyStateToWire.
func KeyStateFromWire(w *rotav1.KeyState) (rota.KeyState, error) {
	return rota.KeyState{Queue: rota.QueueName(w.GetQueue()), Tenant: rota.TenantID(w.GetTenant()), Key: w.GetKey(),
		Jobs: w.GetJobs(),
		Open: w.GetOpen(), Full: w.GetFull(), Next: moment(w.GetNextMs(), w.GetNextClockMs()),
		Head:    rota.JobID(w.GetHead()),
		Blocker: rota.JobID(w.GetBlocker()), Concurrency: w.GetConcurrency(), Rate: w.GetRate(),
		PeriodMs: w.GetPeriodMs(), Tokens: w.GetTokens(), Unit: w.GetUnit(), Debt: rota.Cost(w.GetDebt()),
		Needed: rota.Cost(w.GetNeeded())}, nil
}

// KeyFilterFromWire converts the filter for keys.
func KeyFilterFromWire(w *rotav1.ListKeyStatesRequest) (rota.KeyFilter, error) {
	f := rota.KeyFilter{Queue: rota.QueueName(w.GetQueue()), Tenant: rota.TenantID(w.GetTenant()), Name: w.GetName(),
		Limit:  int(w.GetLimit()),
		Cursor: w.GetCursor()}
	var err error
	if f.Held, err = rota.ParseKeyHeld(w.GetHeld()); err == nil {
		err = f.Check()
	}
	return f, err
}

// KeyStatesFromWire converts a list of states.
func KeyStatesFromWire(w []*rotav1.KeyState) ([]rota.KeyState, error) {
	return tryEach(w, KeyStateFromWire)
}
