package plans

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/filter"
	"github.com/rotasched/rota/internal/limits"
)

// Plans owns the table of plans: one verb for all jobs that a filter selects (SPEC §21.7).
type Plans struct {
	s     *state.State
	ports Ports
	Rows  state.Table[rota.PlanID, Row, *Row]
}

// Ports is what the plans use of other parts.
type Ports struct {
	// RightsOf returns the rights of a principal at the present date.
	RightsOf func(rota.Principal) (*access.Rights, *rota.Error)
	Tombs    *state.Tombs
	// LiveJob and DeadJob return a job as filters see it, Workflow the row of one.
	LiveJob  func(*state.JobRow) rota.Job
	DeadJob  func(*state.TombRow) rota.Job
	Workflow func(rota.WorkflowID) *state.WorkflowRow
	// Wait reports whether an error means that the job has to wait for the next entry.
	Wait func(error) bool
}

// One is a job that a plan applies its verb to; Live is nil if it has ended.
type One struct {
	Spec   *rota.PlanSpec
	Caller access.Caller
	Live   *state.JobRow
	Item   *fsmpb.PlanItem
	Term   uint64
}

// Init connects the plans to the state and the parts that they use.
func (pn *Plans) Init(s *state.State, ports Ports) {
	pn.s, pn.ports = s, ports
	pn.Rows.Init(state.TagPlan, &s.Ledger)
}

// Load adds a plan from a snapshot; false if it is there already.
func (pn *Plans) Load(d *state.Decoder) (fresh bool) {
	r := decodePlan(d)
	return pn.Rows.Load(r.spec.ID, r)
}

// Row is one plan. Every job up to cursor is processed, none after it.
type Row struct {
	state.RowMeta
	// spec never changes; filter is parsed from its text, derived.
	spec   *rota.PlanSpec
	filter *filter.Filter
	// caller started it: each job is judged by its rights.
	caller access.Caller
	// order numbers the plans in the order of their start.
	order          uint64
	started, ended rota.Moment
	// jobs and ends are the highest numbers, at its start, of submissions (for a plan of workflows, of theirs) and of
	// ends: later ones do not belong to it.
	jobs, ends            uint64
	state                 rota.PlanState
	why                   string
	cursor                rota.JobID
	done, refused, passed int64
	Refusals              []rota.PlanRefusal
}

// statesOf returns the states of jobs that a verb applies to. A job that waits for its unique key is BLOCKED, and can
// be cancelled.
func statesOf(v rota.PlanVerb) []rota.JobState {
	if v == rota.PlanCancel {
		return append(v.States(), rota.JobBlocked)
	}
	return v.States()
}

// Read parses the filter of a plan, and refuses a plan without effect: one without a term, and one whose verb
// applies to none of the states that it selects.
func Read(p *rota.PlanSpec) (filter.Filter, error) {
	if err := p.CheckShape(); err != nil {
		return filter.Filter{}, err
	}
	f, err := parse(p)
	switch {
	case err != nil:
		return f, err
	case f.Empty() && p.Verb.Workflows():
		return f, rota.Refusef(rota.KindInvalid, "filter", "a plan needs a filter: id=* stands for all workflows")
	case f.Empty():
		return f, rota.Refusef(rota.KindInvalid, "filter", "a plan needs a filter: id=* stands for all jobs")
	case p.Verb.Workflows() && !f.May(p.Verb.States()...):
		return f, rota.Refusef(rota.KindInvalid, "filter",
			"the filter selects no workflow that %s is for: cancel-workflows is for RUNNING ones, "+
				"retry-workflows for FAILED and CANCELLED ones", p.Verb)
	case !f.May(statesOf(p.Verb)...):
		return f, rota.Refusef(rota.KindInvalid, "filter", "the filter selects no job that %s is for: those are %v",
			p.Verb, statesOf(p.Verb))
	}
	return f, nil
}

// parse parses the filter of a plan, of jobs or of workflows.
func parse(p *rota.PlanSpec) (filter.Filter, error) {
	if p.Verb.Workflows() {
		return filter.ParseWorkflows(p.Filter)
	}
	return filter.Parse(p.Filter)
}

// TreeKey returns the id.
func (r *Row) TreeKey() rota.PlanID { return r.spec.ID }

// Canonical appends the row's canonical form.
func (r *Row) Canonical(e *state.Encoder) {
	s := r.spec
	e.Str(string(s.ID))
	e.Uint(uint64(s.Verb))
	e.Str(s.Filter)
	e.Str(string(s.To))
	if e.Bool(s.Priority != nil); s.Priority != nil {
		e.Uint(uint64(*s.Priority))
	}
	e.Int(s.Max)
	e.Str(string(r.caller.Actor))
	e.Str(r.caller.Via)
	e.Str(r.caller.Request)
	e.Uint(r.order)
	e.Moment(r.started)
	e.Moment(r.ended)
	e.Uint(r.jobs)
	e.Uint(r.ends)
	e.Uint(uint64(r.state))
	e.Str(r.why)
	e.Str(string(r.cursor))
	e.Int(r.done)
	e.Int(r.refused)
	e.Int(r.passed)
	e.Uint(uint64(len(r.Refusals)))
	for _, f := range r.Refusals {
		e.Str(string(f.Job))
		e.Str(f.Text)
	}
}

func decodePlan(d *state.Decoder) *Row {
	s := &rota.PlanSpec{ID: rota.PlanID(d.Str()), Verb: rota.PlanVerb(d.Enum(uint64(rota.PlanVerbLast)))}
	s.Filter, s.To = d.Str(), rota.QueueName(d.Str())
	if d.Bool() {
		p := int32(d.Enum(rota.MaxPriority))
		s.Priority = &p
	}
	s.Max = d.Int()
	r := &Row{spec: s, caller: access.Caller{Actor: rota.Principal(d.Str()), Via: d.Str(), Request: d.Str()}}
	r.order, r.started, r.ended, r.jobs, r.ends = d.Uint(), d.Moment(), d.Moment(), d.Uint(), d.Uint()
	r.state, r.why, r.cursor = rota.PlanState(d.Enum(uint64(rota.PlanCancelled))), d.Str(), rota.JobID(d.Str())
	r.done, r.refused, r.passed = d.Int(), d.Int(), d.Int()
	for range d.Count(limits.MaxPlanRefusals) {
		r.Refusals = append(r.Refusals, rota.PlanRefusal{Job: rota.JobID(d.Str()), Text: d.Str()})
	}
	f, err := parse(s)
	if err != nil {
		d.Fail()
	}
	r.filter = &f
	return r
}

// Detach gives a copy its own list.
func (r *Row) Detach() { r.Refusals = slices.Clone(r.Refusals) }

// event is the payload of events about a plan.
type event struct {
	Plan    rota.PlanID `json:"plan"`
	Verb    string      `json:"verb"`
	Filter  string      `json:"filter"`
	State   string      `json:"state"`
	Done    int64       `json:"done"`
	Refused int64       `json:"refused"`
	Passed  int64       `json:"passed"`
}

func (pn *Plans) emit(r *Row, kind rota.EventKind) {
	pn.s.Journal.Announce(&rota.Event{Kind: kind, Text: r.why,
		Payload: state.Payload(event{r.spec.ID, r.spec.Verb.String(), r.spec.Filter,
			r.state.String(), r.done, r.refused, r.passed})})
}

// finish ends a plan; r is editable.
func (pn *Plans) finish(r *Row, st rota.PlanState, why string) {
	r.state, r.why, r.ended = st, state.Tail(why, limits.MaxReasonBytes), pn.s.Header.Now()
	pn.emit(r, rota.EventPlanFinished)
}

// CancelAll ends every plan of a state that becomes another cluster's.
func (pn *Plans) CancelAll(why string) {
	var running []rota.PlanID
	pn.Rows.Scan(func(id rota.PlanID, r *Row) bool {
		if r.state == rota.PlanRunning {
			running = append(running, id)
		}
		return true
	})
	for _, id := range running {
		pn.finish(pn.Rows.Edit(id), rota.PlanCancelled, why)
	}
}

// Count returns the number of running plans, the oldest one that is over, and the highest order.
func (pn *Plans) Count() (running int, oldest *Row, order uint64) {
	pn.Rows.Scan(func(_ rota.PlanID, r *Row) bool {
		order = max(order, r.order)
		if r.state == rota.PlanRunning {
			running++
		} else if oldest == nil || r.order < oldest.order {
			oldest = r
		}
		return true
	})
	return running, oldest, order
}

// fits reports whether a plan applies to a job, as far as rows show. It ignores the job's failure, as the plan's
// starter may not read it, and who ran it, which only rows of leases and archives contain.
func (r *Row) fits(j *rota.Job, early bool) bool {
	f := r.filter.Without("error", filter.Worker)
	return f.Early(j) && (early || f.Late(j, r.started.Clock))
}

func (r *Row) words() rota.Plan {
	return rota.Plan{PlanSpec: *r.spec, State: r.state, Why: r.why, Started: r.started, Ended: r.ended,
		Cursor: r.cursor, Done: r.done,
		Refused: r.refused, Passed: r.passed, Refusals: slices.Clone(r.Refusals), By: r.caller.Actor}
}

// Work is what a leader needs of a running plan.
type Work struct {
	Spec   rota.PlanSpec
	Caller access.Caller
	// Cursor is the job after which the next step begins, Done the number of processed jobs.
	Cursor rota.JobID
	Done   int64
	// Started is the clock from which ages count; Jobs and Ends are as in the row.
	Started    rota.Clock
	Jobs, Ends uint64
}

// newest returns the highest number of what a plan that starts now applies to.
func (pn *Plans) newest(spec *rota.PlanSpec) uint64 {
	if spec.Verb.Workflows() {
		return pn.s.Header.FlowSeq
	}
	return pn.s.Header.JobSeq
}

// Of reports whether a number and a state belong to a job that the plan applies to.
func (w *Work) Of(number uint64, s rota.JobState) bool {
	upTo := w.Jobs
	if w.Spec.Verb.Ended() {
		upTo = w.Ends
	}
	successor := s == rota.JobBlocked && w.Spec.Verb == rota.PlanCancel // a live job that waits for its unique key
	return number <= upTo && (slices.Contains(w.Spec.Verb.States(), s) || successor)
}

// Check checks the plans.
func (pn *Plans) Check(fault func(format string, args ...any)) {
	running, orders := 0, make(map[uint64]bool)
	pn.Rows.Scan(func(id rota.PlanID, r *Row) bool {
		if r.state == rota.PlanRunning {
			running++
		}
		if orders[r.order] || r.spec.CheckShape() != nil || r.filter.Empty() || id != r.spec.ID ||
			r.jobs > pn.newest(r.spec) || r.ends > pn.s.Header.TombSeq ||
			(r.state == rota.PlanRunning) != (r.ended == rota.Moment{}) {
			fault("I4: plan %s, the %dth, is %s up to job %d and end %d, of %d and %d", id, r.order, r.state, r.jobs,
				r.ends, pn.s.Header.JobSeq,
				pn.s.Header.TombSeq)
		}
		if min(r.done, r.refused, r.passed) < 0 || r.spec.Max > 0 && r.done > r.spec.Max ||
			int64(len(r.Refusals)) != min(r.refused, limits.MaxPlanRefusals) {
			fault("I4: plan %s of %d at most has done %d, was refused %d and shows %d of them, went by %d", id,
				r.spec.Max, r.done, r.refused, len(r.Refusals), r.passed)
		}
		orders[r.order] = true
		return true
	})
	if running > limits.MaxPlansRunning || len(orders) > limits.MaxPlans {
		fault("I4: %d plans run, of %d", running, len(orders))
	}
}

// Starter returns who started a plan.
func (pn *Plans) Starter(id rota.PlanID) (by rota.Principal, known bool) {
	r := pn.Rows.Get(id)
	if r == nil {
		return "", false
	}
	return r.caller.Actor, true
}

// Plan returns a plan in its present state.
func (pn *Plans) Plan(id rota.PlanID) (rota.Plan, bool) {
	r := pn.Rows.Get(id)
	if r == nil {
		return rota.Plan{}, false
	}
	return r.words(), true
}

// List lists the plans in the order of their ids.
func (pn *Plans) List() []rota.Plan {
	list := make([]rota.Plan, 0, pn.Rows.Len())
	pn.Rows.Scan(func(_ rota.PlanID, r *Row) bool {
		list = append(list, r.words())
		return true
	})
	return list
}

// Running lists the running plans for a leader, in the order of their ids.
func (pn *Plans) Running() (list []Work) {
	pn.Rows.Scan(func(_ rota.PlanID, r *Row) bool {
		if r.state == rota.PlanRunning {
			list = append(list, Work{*r.spec, r.caller, r.cursor, r.done, r.started.Clock, r.jobs, r.ends})
		}
		return true
	})
	return list
}

// Preview returns the plan that would result if it started now.
func (pn *Plans) Preview(spec rota.PlanSpec) Work {
	return Work{Spec: spec, Started: pn.s.Header.Clock, Jobs: pn.newest(&spec), Ends: pn.s.Header.TombSeq}
}

// FlowMark returns a workflow as such a filter sees it.
func FlowMark(r *state.WorkflowRow) rota.Job {
	state := rota.JobRunning
	switch r.State {
	case rota.WorkflowCompleted:
		state = rota.JobCompleted
	case rota.WorkflowFailed:
		state = rota.JobDead
	case rota.WorkflowCancelled:
		state = rota.JobCancelled
	}
	return rota.Job{JobSpec: rota.JobSpec{ID: rota.JobID(r.ID), Queue: r.Queue, Tenant: r.Tenant, Labels: r.Labels},
		State:     state,
		Submitted: r.Submitted}
}

// Planned reports whether a plan's filter selects a workflow. A workflow whose nodes are still arriving is never
// selected.
func Planned(r *state.WorkflowRow, f *filter.Filter, started rota.Clock) bool {
	if r.Leaving || r.State == rota.WorkflowOpen {
		return false
	}
	job := FlowMark(r)
	return f.Early(&job) && f.Late(&job, started)
}
