package filter

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// Filter is a line of terms that was read. The zero value selects every job.
type Filter struct {
	terms []term
}

// term is one condition; a job that none of its values fits fails it, or, negated, passes it.
type term struct {
	*kind
	arg    string // what label. is followed by
	values []value
	negate bool
}

// value is one of the values of a term, as its kind has read it.
type value struct {
	text   string
	prefix bool
	number int64
	op     string
}

// kind describes the terms of one name.
type kind struct {
	// name ends in a dot where an argument follows.
	name string
	ops  []string
	// early terms need only those properties of a job that an archive's mark has.
	early bool
	// read checks a value; nil takes every text.
	read func(*value) bool
	want string
	fits func(j *rota.Job, now rota.Clock, arg string, v *value) bool
}

// Worker is the term that came with rules version 2: replicated filters may have it from then on.
const Worker = "worker"

// equal are the operators of most kinds.
var equal = []string{"="}

// kinds are the terms that there are: a new one is a line.
var kinds = []kind{
	{"queue", equal, true, nil, "a queue", text(func(j *rota.Job) string { return string(j.Queue) })},
	{"tenant", equal, true, nil, "a tenant", text(func(j *rota.Job) string { return string(j.Tenant) })},
	{"type", equal, true, nil, "a type", text(func(j *rota.Job) string { return string(j.Type) })},
	{"state", equal, true, isState, "a state such as DEAD", text(func(j *rota.Job) string { return j.State.String() })},
	{"id", equal, true, nil, "an id, or its beginning and *", text(func(j *rota.Job) string { return string(j.ID) })},
	{"schedule", equal, true, nil, "a schedule", func(j *rota.Job, _ rota.Clock, _ string, v *value) bool {
		name, run := rota.SplitRunID(j.ID)
		_, callback := rota.SplitCallbackID(j.ID)
		_, _, delivery := rota.SplitDeliveryID(j.ID)
		return run && !callback && !delivery && v.matches(string(name))
	}},
	{"webhook", equal, true, nil, "a webhook", func(j *rota.Job, _ rota.Clock, _ string, v *value) bool {
		name, _, delivery := rota.SplitDeliveryID(j.ID)
		return delivery && v.matches(string(name))
	}},
	{"batch", equal, false, nil, "a batch", func(j *rota.Job, _ rota.Clock, _ string, v *value) bool {
		return j.Batch != "" && v.matches(string(j.Batch))
	}},
	{"key", equal, false, nil, "a key, name:value", func(j *rota.Job, _ rota.Clock, _ string, v *value) bool {
		return slices.ContainsFunc(j.Keys, v.matches)
	}},
	{"workflow", equal, true, nil, "a workflow", func(j *rota.Job, _ rota.Clock, _ string, v *value) bool {
		workflow, _, ok := rota.SplitNodeJobID(j.ID)
		return ok && v.matches(string(workflow))
	}},
	{Worker, equal, false, nil, "a worker", func(j *rota.Job, _ rota.Clock, _ string, v *value) bool {
		return j.Lease != nil && v.matches(string(j.Lease.Worker)) ||
			slices.ContainsFunc(j.Attempts, func(a rota.Attempt) bool { return v.matches(string(a.Worker)) })
	}},
	{"label.", equal, false, nil, "a value", func(j *rota.Job, _ rota.Clock, key string, v *value) bool {
		got, ok := j.Labels[key]
		return ok && v.matches(got)
	}},
	{"error", []string{"=", "~"}, false, isError,
		"a fingerprint of 16 hexadecimal digits; error~TEXT looks into errors",
		func(j *rota.Job, _ rota.Clock, _ string, v *value) bool {
			if v.op == "~" {
				return strings.Contains(j.Error, v.text)
			}
			return v.text == string(j.Fingerprint)
		}},
	{"priority", []string{"<=", ">=", "="}, false, isNumber, "a number",
		func(j *rota.Job, _ rota.Clock, _ string, v *value) bool {
			return v.compares(int64(j.Priority))
		}},
	{"age", []string{">", "<"}, false, isAge, "a duration such as 90s or 24h, since the submission",
		func(j *rota.Job, now rota.Clock, _ string, v *value) bool {
			return v.compares(int64(now - j.Submitted.Clock))
		}},
}

// text returns the comparison of kinds that compare one text.
func text(of func(*rota.Job) string) func(*rota.Job, rota.Clock, string, *value) bool {
	return func(j *rota.Job, _ rota.Clock, _ string, v *value) bool { return v.matches(of(j)) }
}

func (v *value) matches(got string) bool {
	return got == v.text || v.prefix && strings.HasPrefix(got, v.text)
}

func (v *value) compares(got int64) bool {
	switch v.op {
	case "<=":
		return got <= v.number
	case ">=":
		return got >= v.number
	case "<":
		return got < v.number
	case ">":
		return got > v.number
	}
	return got == v.number
}

func isState(v *value) bool {
	var state rota.JobState
	v.text = strings.ToUpper(v.text)
	return !v.prefix && state.UnmarshalText([]byte(v.text)) == nil && state != rota.JobNone
}

func isError(v *value) bool {
	if v.op == "~" {
		return v.text != ""
	}
	b, err := hex.DecodeString(v.text)
	v.text = string(b)
	return err == nil && len(b) == 8
}

func isNumber(v *value) (ok bool) {
	n, err := strconv.ParseInt(v.text, 10, 64)
	v.number = n
	return err == nil
}

func isAge(v *value) bool {
	d, err := time.ParseDuration(v.text)
	v.number = d.Milliseconds()
	return err == nil && d >= 0
}

// Of reads what a list asks for: the terms of its line and its fields, which are terms too.
func Of(f *rota.JobFilter) (Filter, error) {
	its, err := Parse(f.Where)
	if err != nil {
		return its, err
	}
	for _, field := range []struct{ name, text string }{
		{"queue", string(f.Queue)}, {"tenant", string(f.Tenant)}, {"type", string(f.Type)},
	} {
		if field.text != "" {
			its.add(field.name, field.text)
		}
	}
	if f.State != rota.JobNone {
		its.add("state", f.State.String())
	}
	return its, nil
}

func (f *Filter) add(name, text string) {
	k := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	f.terms = append(f.terms, term{kind: &kinds[k], values: []value{{text: text, op: "="}}})
}

// Parse reads a line of terms. What it refuses it names by its position, the first being 1.
func Parse(line string) (f Filter, err error) { return parse(line, kinds) }

// ParseWorkflows is Parse for terms of workflows: of queue, tenant, state, id, label. and age. A workflow is filtered as
// a job of its id, where DEAD stands for FAILED.
func ParseWorkflows(line string) (f Filter, err error) { return parse(line, workflowKinds) }

// workflowKinds are the terms of workflows.
var workflowKinds = func() (list []kind) {
	for _, k := range kinds {
		switch k.name {
		case "state":
			k.read, k.want = isWorkflowState, "a state such as FAILED"
			list = append(list, k)
		case "queue", "tenant", "id", "label.", "age":
			list = append(list, k)
		}
	}
	return list
}()

func isWorkflowState(v *value) bool {
	switch v.text = strings.ToUpper(v.text); {
	case v.prefix:
		return false
	case v.text == rota.WorkflowFailed.String():
		v.text = rota.JobDead.String()
		return true
	}
	return v.text == rota.WorkflowRunning.String() || v.text == rota.WorkflowCompleted.String() ||
		v.text == rota.WorkflowCancelled.String()
}

func parse(line string, kinds []kind) (f Filter, err error) {
	if len(line) > limits.MaxFilterBytes {
		return f, rota.Refusef(rota.KindInvalid, "filter", "filter too long: got %d bytes, maximum %d", len(line),
			limits.MaxFilterBytes)
	}
	s := scanner{line: line, kinds: kinds}
	if bad := strings.IndexFunc(line, func(r rune) bool { return r == utf8.RuneError }); bad >= 0 &&
		!utf8.ValidString(line) {
		return f, s.refuse(bad, "the filter is not UTF-8")
	}
	for s.skipSpace(); s.at < len(line); s.skipSpace() {
		if len(f.terms) == limits.MaxFilterTerms {
			return Filter{}, s.refuse(s.at, "too many terms: maximum %d", limits.MaxFilterTerms)
		}
		t, err := s.term()
		if err != nil {
			return Filter{}, err
		}
		f.terms = append(f.terms, t)
	}
	return f, nil
}

// Early reports whether a job may pass by the properties in an archive's mark: queue, tenant, type, state and id.
func (f *Filter) Early(j *rota.Job) bool { return f.passes(j, 0, true) }

// Late reports whether a job passes that Early let pass. now is the cluster's clock.
func (f *Filter) Late(j *rota.Job, now rota.Clock) bool { return f.passes(j, now, false) }

// NeedsMore reports whether Early does not decide by itself.
func (f *Filter) NeedsMore() bool {
	return slices.ContainsFunc(f.terms, func(t term) bool { return !t.early })
}

// May reports whether a job in one of some states may pass.
func (f *Filter) May(states ...rota.JobState) bool {
	return slices.ContainsFunc(states, func(s rota.JobState) bool {
		j := rota.Job{State: s}
		return !slices.ContainsFunc(f.terms, func(t term) bool { return t.name == "state" && !t.passes(&j, 0) })
	})
}

func (f *Filter) passes(j *rota.Job, now rota.Clock, early bool) bool {
	for i := range f.terms {
		if t := &f.terms[i]; t.early == early && !t.passes(j, now) {
			return false
		}
	}
	return true
}

func (t *term) passes(j *rota.Job, now rota.Clock) bool {
	for i := range t.values {
		if t.fits(j, now, t.arg, &t.values[i]) {
			return !t.negate
		}
	}
	return t.negate
}

// Empty reports whether the filter has no term.
func (f *Filter) Empty() bool { return len(f.terms) == 0 }

// Has reports whether the filter has a term of a name.
func (f *Filter) Has(name string) bool {
	return slices.ContainsFunc(f.terms, func(t term) bool { return t.name == name })
}

// Without returns the filter without its terms of some names.
func (f *Filter) Without(names ...string) Filter {
	var its Filter
	for _, t := range f.terms {
		if !slices.Contains(names, t.name) {
			its.terms = append(its.terms, t)
		}
	}
	return its
}
