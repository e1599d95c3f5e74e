package rota

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// KeyRule limits jobs that name a key (SPEC §19). A rule of a queue applies to its jobs, one without a queue to the
// jobs of all queues together; both apply if both exist.
type KeyRule struct {
	Queue QueueName `json:"queue,omitempty"`
	Name  string    `json:"name"`
	// Value is the value that the rule applies to; "" applies to all others.
	Value string `json:"value,omitempty"`
	// Scope determines which keys are counted together.
	Scope KeyScope `json:"scope"`
	// Concurrency is the maximum number of open leases with a key; 0 means no limit.
	Concurrency int64 `json:"concurrency,omitempty"`
	// Rate is how many jobs of a key may be assigned in a period, at most Burst of them at once; 0 means no limit.
	// Burst defaults to 1.
	Rate     int64 `json:"rate,omitempty"`
	PeriodMs int64 `json:"period_ms,omitempty"`
	Burst    int64 `json:"burst,omitempty"`
	// Sequence runs the jobs of a key one after another in order of submission.
	Sequence KeySequence `json:"sequence"`
	// Group makes the keys of a queue take turns: next is the waiting key that had the fewest.
	Group bool `json:"group,omitempty"`
	// Unit is the cost that Rate and Burst count, in whole units, instead of assignments (SPEC §30.2). Burst then
	// defaults to Rate. A job without an estimate counts as DefaultCost, by default one unit.
	Unit        string `json:"unit,omitempty"`
	DefaultCost Cost   `json:"default_cost,omitempty"`
	// Breaker stops the jobs of a key after failures (SPEC §30.4). RefuseFull refuses submissions whose job could not
	// start now, instead of queueing them.
	Breaker    KeyBreaker `json:"breaker,omitzero"`
	RefuseFull bool       `json:"refuse_full,omitempty"`
	// ETag is the version of the rule. Setting a rule with an ETag replaces that version only.
	ETag string `json:"etag,omitempty"`
}

// KeyBreaker opens a key after Trip failures among the last Of of its attempts that completed or failed. An open key lets
// no job start for OpenMs; then Probes jobs at a time may start. As many successes close it; a failure opens it again,
// each time for twice as long, up to MaxKeyBackoff times OpenMs. The zero value is no breaker.
type KeyBreaker struct {
	// Trip is 1 to MaxKeyOutcomes, Of is Trip (the default) to MaxKeyOutcomes.
	Trip int64 `json:"trip"`
	Of   int64 `json:"of,omitempty"`
	// OpenMs is at most MaxKeyOpen, 30 s by default; Probes is at most MaxKeyProbes, 1 by default.
	OpenMs int64 `json:"open_ms,omitempty"`
	Probes int64 `json:"probes,omitempty"`
	// Reasons of ended attempts count as failures; by default those of Failures. DONE counts as a success, and any
	// other reason as neither.
	Reasons Reasons `json:"reasons,omitempty"`
}

// Window returns the number of outcomes among which failures are counted.
func (b KeyBreaker) Window() int64 { return max(b.Of, b.Trip) }

// Open returns how long the key is open for the n-th time in succession, in ms.
func (b KeyBreaker) Open(n int64) int64 {
	return cmp.Or(b.OpenMs, 30_000) * min(int64(1)<<min(n-1, 30), MaxKeyBackoff)
}

// Width returns how many probes may run at a time, and how many successes close the key.
func (b KeyBreaker) Width() int64 { return max(b.Probes, 1) }

// Failure reports whether the end of an attempt for a reason counts as a failure.
func (b KeyBreaker) Failure(why Reason) bool { return cmp.Or(b.Reasons, Failures).Has(why) }

// BreakerState is the state of a key's breaker.
type BreakerState uint8

const (
	// BreakerClosed lets jobs start.
	BreakerClosed BreakerState = iota
	// BreakerOpen lets no job start.
	BreakerOpen
	// BreakerProbing lets probes start.
	BreakerProbing
)

var breakerStates = [...]string{"closed", "open", "probing"}

func (s BreakerState) String() string {
	if int(s) < len(breakerStates) {
		return breakerStates[s]
	}
	return "unknown"
}

// ParseBreakerState is the inverse of String; "" is BreakerClosed.
func ParseBreakerState(text string) (BreakerState, error) {
	for i, name := range breakerStates {
		if text == name || text == "" {
			return BreakerState(i), nil
		}
	}
	return 0, NotOneOf("state", text, breakerStates[:]...)
}

// MarshalText implements encoding.TextMarshaler.
func (s BreakerState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *BreakerState) UnmarshalText(text []byte) (err error) {
	*s, err = ParseBreakerState(string(text))
	return err
}

// KeyScope determines which keys with the same text are the same key.
type KeyScope uint8

const (
	// KeyOfTenant counts the keys of each tenant by themselves.
	KeyOfTenant KeyScope = iota
	// KeyOfCluster counts the keys of all tenants together.
	KeyOfCluster
)

var keyScopes = [...]string{"tenant", "cluster"}

func (s KeyScope) String() string {
	if int(s) < len(keyScopes) {
		return keyScopes[s]
	}
	return "unknown"
}

// ParseKeyScope is the inverse of String; "" is KeyOfTenant.
func ParseKeyScope(text string) (KeyScope, error) {
	for i, name := range keyScopes {
		if text == name || text == "" {
			return KeyScope(i), nil
		}
	}
	return 0, NotOneOf("scope", text, keyScopes[:]...)
}

// MarshalText implements encoding.TextMarshaler.
func (s KeyScope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *KeyScope) UnmarshalText(text []byte) (err error) {
	*s, err = ParseKeyScope(string(text))
	return err
}

// KeySequence determines what happens to a sequence whose head does not complete.
type KeySequence uint8

const (
	// SequenceNone means no sequence: jobs of a key run concurrently.
	SequenceNone KeySequence = iota
	// SequenceBlock stops after a head that is DEAD or EXPIRED.
	SequenceBlock
	// SequenceSkip continues with the next job.
	SequenceSkip
)

var keySequences = [...]string{"none", "block", "skip"}

func (s KeySequence) String() string {
	if int(s) < len(keySequences) {
		return keySequences[s]
	}
	return "unknown"
}

// ParseKeySequence is the inverse of String; "" is SequenceNone.
func ParseKeySequence(text string) (KeySequence, error) {
	for i, name := range keySequences {
		if text == name || text == "" {
			return KeySequence(i), nil
		}
	}
	return 0, NotOneOf("sequence", text, keySequences[:]...)
}

// MarshalText implements encoding.TextMarshaler.
func (s KeySequence) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *KeySequence) UnmarshalText(text []byte) (err error) {
	*s, err = ParseKeySequence(string(text))
	return err
}

// KeyState has the current counts of a key that a rule applies to.
type KeyState struct {
	// Queue and Tenant are those in which the key is counted, "" for all of them.
	Queue  QueueName `json:"queue,omitempty"`
	Tenant TenantID  `json:"tenant,omitempty"`
	Key    string    `json:"key"`
	// Jobs is the number of live jobs; Open of them have a lease.
	Jobs int64 `json:"jobs"`
	Open int64 `json:"open"`
	// Full reports that none of its jobs can be assigned now. Next is when one may be assigned, if a date is known.
	Full bool   `json:"full"`
	Next Moment `json:"next"`
	// Head is the next job of a sequence; Blocker is the job that blocks it.
	Head    JobID `json:"head,omitempty"`
	Blocker JobID `json:"blocker,omitempty"`
	// Concurrency, Rate and PeriodMs are those of its rule, 0 for no limit. Tokens is how many jobs the rate allows
	// now.
	Concurrency int64 `json:"concurrency,omitempty"`
	Rate        int64 `json:"rate,omitempty"`
	PeriodMs    int64 `json:"period_ms,omitempty"`
	Tokens      int64 `json:"tokens,omitempty"`
	// Unit is the cost that the rate counts, "" for assignments. Debt is what the rate has yet to repay, Needed how far
	// below the burst the debt must be for the largest waiting job.
	Unit   string `json:"unit,omitempty"`
	Debt   Cost   `json:"debt,omitempty"`
	Needed Cost   `json:"needed,omitempty"`
	// Pause is set while the key is paused, Breaker where its rule has one.
	Pause   *KeyPause        `json:"pause,omitempty"`
	Breaker *KeyBreakerState `json:"breaker,omitempty"`
}

// KeyPause is why and for how long the jobs of a key are not assigned (SPEC §30.3).
type KeyPause struct {
	Since Moment `json:"since"`
	// Until is zero if the key is paused until it is resumed.
	Until Moment `json:"until,omitzero"`
	// By paused it last, or the handler of an attempt on Worker.
	By     Principal `json:"by,omitempty"`
	Worker WorkerID  `json:"worker,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// KeyBreakerState is what a key's breaker does, and why (SPEC §30.4).
type KeyBreakerState struct {
	State BreakerState `json:"state"`
	// Failures is their number among the last outcomes, while the breaker is closed.
	Failures int64 `json:"failures"`
	// Until is when probes may start, while it is open. Probing is the number of probes that have a lease.
	Until   Moment `json:"until,omitzero"`
	Probing int64  `json:"probing,omitempty"`
	// Opened is how often it has opened since it was last closed.
	Opened int64 `json:"opened,omitempty"`
	// Latest are the newest failures, at most five, oldest first.
	Latest []KeyFailure `json:"latest,omitempty"`
}

// KeyFailure is an attempt that counted as a failure.
type KeyFailure struct {
	Job    JobID  `json:"job"`
	Reason Reason `json:"reason"`
}

// KeyFilter selects keys that rules count. The zero value selects all.
type KeyFilter struct {
	// Queue and Tenant are those in which a key is counted, Name is the part before its colon; "" is any.
	Queue  QueueName
	Tenant TenantID
	Name   string
	Held   KeyHeld
	By     KeyOrder
	// Limit is the maximum number of keys, 0 for all; Cursor continues after an earlier page.
	Limit  int
	Cursor string
}

// KeyHeld is the reason why the jobs of a key are held up.
type KeyHeld uint8

const (
	// KeyHeldAny selects all keys, held up or not.
	KeyHeldAny KeyHeld = iota
	// KeyHeldFull selects keys at a limit of their rule: none of their jobs is assigned now.
	KeyHeldFull
	// KeyHeldBlocked selects keys whose sequence is blocked by a job that ended DEAD or EXPIRED.
	KeyHeldBlocked
	// KeyHeldPaused selects keys that are paused.
	KeyHeldPaused
	// KeyHeldOpen selects keys whose breaker is open or probing.
	KeyHeldOpen
)

var keyHelds = [...]string{"any", "full", "blocked", "paused", "open"}

func (h KeyHeld) String() string {
	if int(h) < len(keyHelds) {
		return keyHelds[h]
	}
	return "unknown"
}

// ParseKeyHeld is the inverse of String; "" is KeyHeldAny.
func ParseKeyHeld(text string) (KeyHeld, error) {
	for i, name := range keyHelds {
		if text == name || text == "" {
			return KeyHeld(i), nil
		}
	}
	return 0, NotOneOf("held", text, keyHelds[:]...)
}

// KeyOrder is the order of a list of keys.
type KeyOrder uint8

const (
	// KeyByUse lists the keys with the most open leases first, then those with the most live jobs.
	KeyByUse KeyOrder = iota
	// KeyBySpent lists the keys first whose weighted rate has the largest part of its burst spent and not yet repaid.
	KeyBySpent
)

var keyOrders = [...]string{"use", "spent"}

func (o KeyOrder) String() string {
	if int(o) < len(keyOrders) {
		return keyOrders[o]
	}
	return "unknown"
}

// ParseKeyOrder is the inverse of String; "" is KeyByUse.
func ParseKeyOrder(text string) (KeyOrder, error) {
	for i, name := range keyOrders {
		if text == name || text == "" {
			return KeyOrder(i), nil
		}
	}
	return 0, NotOneOf("by", text, keyOrders[:]...)
}

// Check rejects a filter that no key could match.
func (f *KeyFilter) Check() error {
	if f.Queue != "" {
		if err := CheckID("queue", f.Queue); err != nil {
			return err
		}
	}
	if f.Tenant != "" {
		if err := CheckID("tenant", f.Tenant); err != nil {
			return err
		}
	}
	if f.Name != "" && (!validLabel(f.Name) || strings.Contains(f.Name, ":")) {
		return Refusef(KindInvalid, "name",
			"name: got %.80q; use 1 to %d bytes of printable ASCII without blanks and colons", f.Name, MaxKeyBytes)
	}
	if f.Held > KeyHeldOpen {
		return NotOneOf("held", strconv.Itoa(int(f.Held)), keyHelds[:]...)
	}
	if f.By > KeyBySpent {
		return NotOneOf("by", strconv.Itoa(int(f.By)), keyOrders[:]...)
	}
	return nil
}

// checkKeys checks the keys of a job.
func checkKeys(keys []string) error {
	if len(keys) > MaxKeys {
		return TooMany("keys", len(keys), MaxKeys)
	}
	for i, key := range keys {
		name, ok := keyName(key)
		if !ok {
			return badKey(fmt.Sprintf("keys[%d]", i), key)
		}
		for _, other := range keys[:i] {
			if before, _, _ := strings.Cut(other, ":"); before == name {
				return Refusef(KindInvalid, "keys", "keys[%d]: got the name %q again; use each name once", i, name)
			}
		}
	}
	return nil
}

// keyName returns the name of a key; false if the key is not name:value.
func keyName(key string) (name string, ok bool) {
	name, value, ok := strings.Cut(key, ":")
	return name, ok && name != "" && value != "" && validLabel(key)
}

// badKey returns why a key is invalid.
func badKey(field, key string) error {
	if !validLabel(key) {
		return Refusef(KindInvalid, "keys", "%s: use NAME:VALUE, 3 to %d bytes of printable ASCII without blanks",
			field, MaxKeyBytes)
	}
	return Refusef(KindInvalid, "keys", "%s: got %q; use NAME:VALUE", field, key)
}

// Check rejects a rule whose fields are out of range.
func (r *KeyRule) Check() error {
	if r.Queue != "" {
		if err := CheckID("queue", r.Queue); err != nil {
			return err
		}
	}
	if !validLabel(r.Name) || strings.Contains(r.Name, ":") {
		return Refusef(KindInvalid, "name",
			"name: got %.80q; use 1 to %d bytes of printable ASCII without blanks and colons", r.Name, MaxKeyBytes)
	}
	if r.Value != "" && !validLabel(r.Name+":"+r.Value) {
		return Refusef(KindInvalid, "value",
			"value: got %.80q; use printable ASCII without blanks, at most %d bytes with the name", r.Value,
			MaxKeyBytes)
	}
	if r.Scope > KeyOfCluster {
		return NotOneOf("scope", strconv.Itoa(int(r.Scope)), keyScopes[:]...)
	}
	if r.Sequence > SequenceSkip {
		return NotOneOf("sequence", strconv.Itoa(int(r.Sequence)), keySequences[:]...)
	}
	if r.Concurrency < 0 || r.Concurrency > MaxKeyConcurrency {
		return Refusef(KindInvalid, "concurrency", "concurrency must be between 0 (no limit) and %d, got %d",
			MaxKeyConcurrency, r.Concurrency)
	}
	if r.Group && (r.Queue == "" || r.Value != "") {
		return Refusef(KindInvalid, "group",
			"a group rule applies to all keys with its name in one queue: set queue, and omit value")
	}
	if err := r.checkRate(); err != nil {
		return err
	}
	if err := r.Breaker.check(); err != nil {
		return err
	}
	if r.Value == "" && r.Concurrency == 0 && r.Rate == 0 && r.Sequence == SequenceNone && !r.Group &&
		r.Breaker.Trip == 0 {
		return Refusef(KindInvalid, "rule",
			"the rule of key %s is empty: set at least one of concurrency, rate, sequence, group, breaker", r.Name)
	}
	return nil
}

func (r *KeyRule) checkRate() error {
	if r.Unit != "" || r.DefaultCost != 0 {
		return r.checkWeightedRate()
	}
	if r.Rate < 0 || r.Rate > MaxKeyRate || r.Rate == 0 && (r.PeriodMs != 0 || r.Burst != 0) {
		return Refusef(KindInvalid, "rate",
			"rate must be between 1 and %d, got %d with period_ms %d and burst %d; omit all three for no rate limit",
			MaxKeyRate, r.Rate, r.PeriodMs, r.Burst)
	}
	if r.Rate == 0 {
		return nil
	}
	if r.PeriodMs < 1 || r.PeriodMs > int64(MaxKeyPeriod) {
		return Refusef(KindInvalid, "period_ms", "period_ms must be between 1 and %d (a day), got %d", MaxKeyPeriod,
			r.PeriodMs)
	}
	every := r.PeriodMs * 1_000_000 / r.Rate
	if most := int64(MaxKeyBurst) * 1_000_000 / every; r.Burst < 0 || r.Burst > most {
		return Refusef(KindInvalid, "burst", "burst must be between 0 and %d (the refill of ten days), got %d", most,
			r.Burst)
	}
	return nil
}

// checkWeightedRate checks a rate that counts a cost.
func (r *KeyRule) checkWeightedRate() error {
	const most, tenDays = MaxCost / CostUnit, 10 * 24 * 3600 * 1000
	switch {
	case !validCostName(r.Unit):
		return Refusef(KindInvalid, "unit",
			"unit: got %.80q; use the name of a cost: 1 to %d bytes of printable ASCII, without spaces and the characters : = ,",
			r.Unit, MaxLabelBytes)
	case r.Rate < 1 || r.Rate > most:
		return OutOfRange("rate", r.Rate, 1, most)
	case r.PeriodMs < 1 || r.PeriodMs > int64(MaxKeyPeriod):
		return OutOfRange("period_ms", r.PeriodMs, 1, int64(MaxKeyPeriod))
	case r.Burst < 0 || r.Burst > min(most, max(r.Rate, tenDays/r.PeriodMs*r.Rate)):
		return Refusef(KindInvalid, "burst", "burst must be between 0 and %d (the rate of ten days), got %d",
			min(most, max(r.Rate, tenDays/r.PeriodMs*r.Rate)), r.Burst)
	case r.DefaultCost < 0 || r.DefaultCost > MaxCost:
		return Refusef(KindInvalid, "default_cost", "default_cost must be between 0 and %s, got %s",
			formatCost(MaxCost), r.DefaultCost)
	}
	return nil
}

// check rejects a breaker whose fields are out of range.
func (b KeyBreaker) check() error {
	if b == (KeyBreaker{}) {
		return nil
	}
	if b.Of != 0 && (b.Of < b.Trip || b.Of > MaxKeyOutcomes) {
		return OutOfRange("breaker.of", b.Of, max(b.Trip, 1), MaxKeyOutcomes)
	}
	if b.OpenMs < 0 || b.OpenMs > int64(MaxKeyOpen) {
		return OutOfRange("breaker.open_ms", b.OpenMs, 0, int64(MaxKeyOpen))
	}
	if b.Probes < 0 || b.Probes > MaxKeyProbes {
		return OutOfRange("breaker.probes", b.Probes, 0, MaxKeyProbes)
	}
	if extra := b.Reasons &^ breakable; extra != 0 {
		return Refusef(KindInvalid, "breaker.reasons", "breaker.reasons: got %s; use some of %s", extra, breakable)
	}
	if b.Trip < 1 || b.Trip > MaxKeyOutcomes {
		return OutOfRange("breaker.trip", b.Trip, 1, MaxKeyOutcomes)
	}
	return nil
}
