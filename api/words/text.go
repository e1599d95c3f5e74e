package words

import (
	"strings"
	"unicode/utf8"

	"github.com/rotasched/rota"
)

// enum holds one enumeration's texts, read from its String method at start so that there is no second table.
type enum[T ~uint8] struct {
	what   string
	texts  []string
	values map[string]T
}

func newEnum[T ~uint8](what string, text func(T) string) enum[T] {
	e := enum[T]{what: what, values: make(map[string]T)}
	for v := 0; v < 256; v++ {
		name := text(T(v))
		if strings.HasPrefix(name, "UNKNOWN_") {
			break
		}
		e.texts = append(e.texts, name)
		e.values[name] = T(v)
	}
	e.values[""] = 0
	return e
}

// text returns the wire text; the zero value is the empty text. A value beyond the table, which only an internal error
// produces, travels as its String and is rejected by the reader.
func (e *enum[T]) text(v T) string {
	switch {
	case v == 0:
		return ""
	case int(v) < len(e.texts):
		return e.texts[v]
	default:
		return "UNKNOWN"
	}
}

func (e *enum[T]) value(text string) (T, error) {
	if v, ok := e.values[text]; ok {
		return v, nil
	}
	return 0, rota.Refusef(rota.KindInvalid, e.what, "%s %q is unknown to this version: use one of %s",
		e.what, shown(text), strings.Join(e.texts, ", "))
}

var (
	jobStates      = newEnum("job state", rota.JobState.String)
	leaseStates    = newEnum("lease state", rota.LeaseState.String)
	workerStatuses = newEnum("worker status", rota.WorkerStatus.String)
	modes          = newEnum("mode", rota.ClusterMode.String)
	serviceTiers   = newEnum("service tier", rota.ServiceTier.String)
	overlaps       = newEnum("overlap", rota.Overlap.String)
	scheduleStates = newEnum("schedule state", rota.ScheduleState.String)
	planVerbs      = newEnum("verb", rota.PlanVerb.String)
	planStates     = newEnum("plan state", rota.PlanState.String)
	fates          = newEnum("fate", rota.Fate.String)
	webhookStates  = newEnum("webhook state", rota.WebhookState.String)
	batchStates    = newEnum("batch state", rota.BatchState.String)
	reasons        = newEnum("reason", rota.Reason.String)
	rules          = newEnum("reasoning", rota.ReasoningRule.String)
	kinds          = newEnum("kind", rota.Kind.String)
)

// clean makes text valid UTF-8, which the wire requires: a handler's error text may be anything, and one bad byte would
// make a whole answer unsendable.
func clean(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func cleanAll(list []string) []string {
	for i, s := range list {
		if utf8.ValidString(s) {
			continue
		}
		out := append([]string(nil), list...)
		for j := i; j < len(out); j++ {
			out[j] = clean(out[j])
		}
		return out
	}
	return list
}

// shown truncates foreign text before it becomes part of an error.
func shown(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// each converts a list; nil stays nil.
func each[A, B any](in []A, f func(*A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i := range in {
		out[i] = f(&in[i])
	}
	return out
}

// tryEach converts a list back; an empty one is empty, not nil, so that JSON shows [] and not null.
func tryEach[A, B any](in []A, f func(A) (B, error)) ([]B, error) {
	out := make([]B, len(in))
	for i := range in {
		var err error
		if out[i], err = f(in[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func ids[A, B ~string](in []A) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i := range in {
		out[i] = B(in[i])
	}
	return out
}

// JobIDsFromWire converts a list of job ids; it checks nothing.
func JobIDsFromWire(in []string) []rota.JobID { return ids[string, rota.JobID](in) }

// moment returns a Moment from a date and a clock of the wire.
func moment(date, clock int64) rota.Moment {
	return rota.Moment{Clock: rota.Clock(clock), Date: rota.Date(date)}
}
