package rota

import "strings"

// BudgetName names a budget.
type BudgetName string

// Budget limits how much of a cost jobs spend in a period (SPEC §30.5). It applies to the jobs of its tenant, queue and
// key; one that is not set means all.
type Budget struct {
	Name   BudgetName `json:"name"`
	Tenant TenantID   `json:"tenant,omitempty"`
	Queue  QueueName  `json:"queue,omitempty"`
	// Key is NAME:VALUE, or NAME for every value of it.
	Key string `json:"key,omitempty"`
	// Each gives every tenant, key, workflow or job an account with the whole limit.
	Each BudgetEach `json:"each"`
	// Unit is the cost that it limits, Limit how much of it a period may spend. A job without an estimate counts as
	// DefaultCost, 0 by default.
	Unit        string `json:"unit"`
	Limit       Cost   `json:"limit"`
	DefaultCost Cost   `json:"default_cost,omitempty"`
	// Every is the calendar period after which it begins again, in the time zone TZ, UTC by default.
	Every BudgetPeriod `json:"every"`
	TZ    string       `json:"tz,omitempty"`
	// WarnPermille of the limit, 1 to 1000, emit an event once a period; 0 is never.
	WarnPermille int64 `json:"warn_permille,omitempty"`
	// Then is the consequence at the limit.
	Then BudgetThen `json:"then"`
	// Stop also interrupts an attempt whose report passes the limit.
	Stop bool `json:"stop,omitempty"`
	// ETag is the version of the budget. Setting a budget with an ETag replaces that version only.
	ETag string `json:"etag,omitempty"`
}

// BudgetEach determines the owners of a budget's accounts.
type BudgetEach uint8

const (
	// EachNone keeps one account for all jobs of the budget.
	EachNone BudgetEach = iota
	// EachTenant keeps one for each tenant.
	EachTenant
	// EachKey keeps one for each value of the budget's key.
	EachKey
	// EachWorkflow keeps one for each workflow, until it ends. It does not apply to jobs outside of workflows.
	EachWorkflow
	// EachJob keeps one for each job, until it ends.
	EachJob
)

var budgetEachs = []string{"none", "tenant", "key", "workflow", "job"}

// Ends reports whether an account ends with its owner.
func (e BudgetEach) Ends() bool { return e == EachWorkflow || e == EachJob }

// String names the owner.
func (e BudgetEach) String() string { return nameOf(budgetEachs, int(e)) }

// ParseBudgetEach is the inverse of String; "" is EachNone.
func ParseBudgetEach(text string) (BudgetEach, error) {
	if text == "" {
		return EachNone, nil
	}
	v, err := valueOf(budgetEachs, "each", []byte(text))
	return BudgetEach(v), err
}

// MarshalText implements encoding.TextMarshaler.
func (e BudgetEach) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *BudgetEach) UnmarshalText(text []byte) (err error) {
	*e, err = ParseBudgetEach(string(text))
	return err
}

// BudgetPeriod is the calendar period of a budget.
type BudgetPeriod uint8

const (
	// EveryNone never begins again by itself.
	EveryNone BudgetPeriod = iota
	// EveryHour begins at each full hour.
	EveryHour
	// EveryDay begins at midnight.
	EveryDay
	// EveryWeek begins on Monday.
	EveryWeek
	// EveryMonth begins on the first.
	EveryMonth
)

var budgetPeriods = []string{"none", "hour", "day", "week", "month"}

// String names the period.
func (p BudgetPeriod) String() string { return nameOf(budgetPeriods, int(p)) }

// Cron returns the cron expression of the starts of periods, "" for none.
func (p BudgetPeriod) Cron() string {
	return [...]string{"", "0 * * * *", "0 0 * * *", "0 0 * * 1", "0 0 1 * *"}[p]
}

// ParseBudgetPeriod is the inverse of String; "" is EveryNone.
func ParseBudgetPeriod(text string) (BudgetPeriod, error) {
	if text == "" {
		return EveryNone, nil
	}
	v, err := valueOf(budgetPeriods, "every", []byte(text))
	return BudgetPeriod(v), err
}

// MarshalText implements encoding.TextMarshaler.
func (p BudgetPeriod) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *BudgetPeriod) UnmarshalText(text []byte) (err error) {
	*p, err = ParseBudgetPeriod(string(text))
	return err
}

// BudgetThen is the consequence when a budget has nothing left.
type BudgetThen uint8

const (
	// ThenHold lets jobs wait for the next period, or for a grant.
	ThenHold BudgetThen = iota
	// ThenRefuse also refuses submissions.
	ThenRefuse
	// ThenAsk also opens a question, which a grant answers.
	ThenAsk
	// ThenWarn only emits an event.
	ThenWarn
)

var budgetThens = []string{"hold", "refuse", "ask", "warn"}

// String names the consequence.
func (t BudgetThen) String() string { return nameOf(budgetThens, int(t)) }

// ParseBudgetThen is the inverse of String; "" is ThenHold.
func ParseBudgetThen(text string) (BudgetThen, error) {
	if text == "" {
		return ThenHold, nil
	}
	v, err := valueOf(budgetThens, "then", []byte(text))
	return BudgetThen(v), err
}

// MarshalText implements encoding.TextMarshaler.
func (t BudgetThen) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *BudgetThen) UnmarshalText(text []byte) (err error) {
	*t, err = ParseBudgetThen(string(text))
	return err
}

// KeyName returns the name of the budget's key, "" if it has none.
func (b *Budget) KeyName() string {
	name, _, _ := strings.Cut(b.Key, ":")
	return name
}

// Times returns when its periods begin, as the times of a schedule.
func (b *Budget) Times() ScheduleTimes { return ScheduleTimes{Cron: b.Every.Cron(), TZ: b.TZ} }

// Estimate returns what a job counts as when it starts, in millionths.
func (b *Budget) Estimate(s *JobSpec) int64 {
	if estimate, ok := s.Costs[b.Unit]; ok {
		return estimate
	}
	return int64(b.DefaultCost)
}

// Account returns which of the budget's accounts a job spends from; ok is false if the budget does not apply to it.
// The spec's own id is not read.
func (b *Budget) Account(id JobID, s *JobSpec) (of string, ok bool) {
	if b.Tenant == "" && s.Tenant == WebhookTenant {
		return "", false // deliveries, also of the budget's own events
	}
	if b.Tenant != "" && b.Tenant != s.Tenant || b.Queue != "" && b.Queue != s.Queue {
		return "", false
	}
	key := ""
	if b.Key != "" {
		for _, k := range s.Keys {
			if name, _, _ := strings.Cut(k, ":"); k == b.Key || name == b.Key {
				key = k
			}
		}
		if key == "" {
			return "", false
		}
	}
	switch b.Each {
	case EachTenant:
		return string(s.Tenant), true
	case EachKey:
		return key, true
	case EachWorkflow:
		w, _, ok := SplitNodeJobID(id)
		return string(w), ok
	case EachJob:
		return string(id), true
	default:
		return "", true
	}
}

// Check rejects a budget whose fields are out of range.
func (b *Budget) Check() error {
	if err := CheckID("name", b.Name); err != nil {
		return err
	}
	if b.Tenant != "" {
		if err := CheckID("tenant", b.Tenant); err != nil {
			return err
		}
	}
	if b.Queue != "" {
		if err := CheckID("queue", b.Queue); err != nil {
			return err
		}
	}
	if err := b.checkKey(); err != nil {
		return err
	}
	for _, e := range []struct {
		field string
		value uint8
		names []string
	}{{"each", uint8(b.Each), budgetEachs}, {"every", uint8(b.Every), budgetPeriods}, {"then", uint8(b.Then), budgetThens}} {
		if int(e.value) >= len(e.names) {
			return NotOneOf(e.field, nameOf(e.names, int(e.value)), e.names...)
		}
	}
	if !validCostName(b.Unit) {
		return Refusef(KindInvalid, "unit",
			"unit: got %.80q; use the name of a cost: 1 to %d bytes of printable ASCII, without spaces and the characters : = ,",
			b.Unit, MaxLabelBytes)
	}
	for _, c := range []struct {
		field  string
		amount Cost
	}{{"limit", b.Limit}, {"default_cost", b.DefaultCost}} {
		if c.amount < 0 || c.amount > MaxCost {
			return Refusef(KindInvalid, c.field, "%s: got %s, want 0 to %s", c.field, c.amount, Cost(MaxCost))
		}
	}
	if b.WarnPermille < 0 || b.WarnPermille > 1000 {
		return Refusef(KindInvalid, "warn_permille", "warn_permille: got %d, want 0 (never) to 1000", b.WarnPermille)
	}
	if b.TZ != "" && (b.Every == EveryNone || len(b.TZ) > MaxIDBytes) {
		return Refusef(KindInvalid, "tz", "tz: got %.80q; want the name of a time zone, and a period with every", b.TZ)
	}
	if b.Stop && b.Then == ThenWarn {
		return Refusef(KindInvalid, "stop", "stop: got true with then warn, which stops nothing; use hold, refuse or ask")
	}
	return nil
}

func (b *Budget) checkKey() error {
	if b.Key == "" {
		if b.Each == EachKey {
			return Refusef(KindInvalid, "key", "key: got none, want a key's name for an account of each of its values")
		}
		return nil
	}
	_, value, whole := strings.Cut(b.Key, ":")
	if !validLabel(b.Key) || whole && value == "" || strings.HasPrefix(b.Key, ":") {
		return Refusef(KindInvalid, "key", "key: got %.80q; use NAME or NAME:VALUE, up to %d bytes of printable ASCII without blanks",
			b.Key, MaxKeyBytes)
	}
	if whole && b.Each == EachKey {
		return Refusef(KindInvalid, "key", "key: got %s with an account of each key; use its name alone", b.Key)
	}
	return nil
}

// BudgetState is a budget and the sums of its accounts.
type BudgetState struct {
	Budget
	// Since is when the present period began, Until when it ends; 0 without an end, or if none is calculated yet.
	Since Date `json:"since_ms"`
	Until Date `json:"until_ms,omitempty"`
	// Accounts is the number of accounts that hold anything. Spent, Reserved and Granted are their sums; Held of them
	// hold jobs back, Asking of them are open questions.
	Accounts int64 `json:"accounts"`
	Spent    Cost  `json:"spent"`
	Reserved Cost  `json:"reserved"`
	Granted  Cost  `json:"granted,omitempty"`
	Held     int64 `json:"held,omitempty"`
	Asking   int64 `json:"asking,omitempty"`
}

// BudgetAccount is one account of a budget in the present period.
type BudgetAccount struct {
	Budget BudgetName `json:"budget"`
	// Of is its owner: a tenant, key, workflow or job, "" if the budget has one account.
	Of string `json:"of,omitempty"`
	// Limit includes grants. Spent is the use of ended attempts, Reserved that of open attempts: the
	// greater of their estimates and their reports. Left is never negative.
	Limit    Cost `json:"limit"`
	Spent    Cost `json:"spent"`
	Reserved Cost `json:"reserved"`
	Left     Cost `json:"left"`
	// Granted was added to the limit in this period.
	Granted Cost `json:"granted,omitempty"`
	// Waiting is the number of QUEUED jobs that it applies to, Held of which do not fit.
	Waiting int64 `json:"waiting"`
	Held    int64 `json:"held,omitempty"`
	// Warned reports that this period's event was emitted, Full that nothing is left or jobs are held back, Asks that
	// this is an open question.
	Warned bool `json:"warned,omitempty"`
	Full   bool `json:"full,omitempty"`
	Asks   bool `json:"asks,omitempty"`
	// Empty is when nothing is left at the period's rate so far, 0 if not in this period.
	Empty Date `json:"empty_ms,omitempty"`
	// Changes are the newest grants and resets, oldest first.
	Changes []BudgetChange `json:"changes,omitempty"`
}

// BudgetAccountFilter selects accounts of a budget.
type BudgetAccountFilter struct {
	Budget BudgetName
	// Of is the only account, "" for all. Held selects those that hold jobs back, Asking the open questions.
	Of     string
	Held   bool
	Asking bool
	// Limit is the maximum number of accounts; Cursor continues after an earlier page.
	Limit  int
	Cursor string
}

// BudgetChange is a grant to an account, or a reset of it.
type BudgetChange struct {
	// ID identifies the call, so that a repetition changes nothing.
	ID string `json:"id"`
	// Amount was added to the limit; 0 is a reset.
	Amount Cost      `json:"amount,omitempty"`
	Reason string    `json:"reason,omitempty"`
	By     Principal `json:"by,omitempty"`
	At     Date      `json:"at_ms"`
}
