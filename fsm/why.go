package fsm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// Why explains the state of a live job (SPEC §6.1, §7.7): for a pending job every reason, its rank, and the remedies;
// for a leased job the recorded decision. It uses the code that decides: the obstacles that rounds and the re-check
// meet, the rules of Supply, and Decide itself, of which it looks at `most` pairs at most. It is a pure read; ok is
// false if the job is not live.
func (vw *View) Why(id rota.JobID, most int) (x rota.Explanation, ok bool) {
	return vw.WhyFor(id, most, nil)
}

// WhyFor is Why for a caller: it names no job that the caller may not read, and no worker unless the caller may see the
// state of workers.
func (vw *View) WhyFor(id rota.JobID, most int, rd *access.Reader) (x rota.Explanation, ok bool) {
	x = rota.Explanation{Job: id, Index: vw.m.Header.Index, Clock: vw.m.Header.Clock, Date: vw.m.Header.Date(),
		Reasons: []rota.Why{}}
	j := vw.m.JobTable.Get(id)
	if j == nil {
		f, v := vw.m.flows.waitingNode(id)
		if v == nil {
			ok = vw.m.schedules.WhyWaits(&x, rd)
			return x, ok
		}
		vw.whyBlocked(&x, f, v, rd)
		return x, true
	}
	x.State = j.State
	x.UniqueHolder = vw.m.uniques.Holder(j.History().Unique, j.Spec.Queue)
	switch j.State {
	case rota.JobQueued:
		vw.whyQueued(&x, j, most, rd)
	case rota.JobDelayed:
		vw.whyDelayed(&x, j, rd)
	case rota.JobBlocked:
		detail := "it follows the job that holds its unique key"
		if h := vw.m.JobTable.Get(x.UniqueHolder); h != nil && rd.Reads(h.Spec.Tenant, h.Spec.Queue) {
			detail = fmt.Sprintf("it follows job %s (%s), which holds its unique key", h.Spec.ID, h.State)
		}
		x.Reasons = append(x.Reasons, rota.Why{Reason: "WAITING_FOR_HOLDER", Detail: detail})
		x.WouldRun = append(x.WouldRun, "that job ends")
	case rota.JobAssigned, rota.JobRunning:
		l := vw.m.leasing.leases.Get(string(j.Lease[:]))
		x.Decision = &rota.PlacedDecision{Decision: l.Decision, Worker: l.Worker, Attempt: l.Attempt}
	}
	for _, w := range x.Reasons {
		if text := vw.remedy(j, w); text != "" && !slices.Contains(x.WouldRun, text) {
			x.WouldRun = append(x.WouldRun, text)
		}
	}
	return x, true
}

// parentsShown is the maximum number of parents that an explanation names.
const parentsShown = 10

// whyBlocked explains which parents a node waits for, or what happens to it if it waits for none. It names those that
// rd may read.
func (vw *View) whyBlocked(x *rota.Explanation, f *flow, v *state.VertexRow, rd *access.Reader) {
	x.State = rota.JobBlocked
	var names []string
	left := 0
	sources := f.sources(v)
	for _, p := range sources {
		parent := f.rows[p]
		if parent.State == rota.NodeState(rota.JobCompleted) || v.Run != rota.RunOnSuccess && parent.Over() {
			continue
		}
		if left++; len(names) < parentsShown && rd.Reads(parent.Spec.Tenant, parent.Spec.Queue) {
			st := parent.State
			if st == state.VertexLive {
				st = rota.NodeState(vw.JobState(parent.Spec.ID))
			}
			names = append(names, fmt.Sprintf("%s (%s)", state.VertexName(parent), st))
		}
	}
	until, ended := "complete", "completed"
	if v.Run != rota.RunOnSuccess {
		until, ended = "end", "ended"
	}
	w := rota.Why{Reason: "WAITING_FOR_PARENTS", Detail: "its parent has not " + ended}
	if len(sources) > 1 {
		w.Detail = fmt.Sprintf("%d of its %d parents have not %s", left, len(sources), ended)
	}
	if len(names) > 0 {
		w.Detail += ": " + strings.Join(names, ", ")
		if more := left - len(names); more > 0 {
			w.Detail += fmt.Sprintf(" and %d more", more)
		}
	}
	switch r := vw.m.flows.workflows.Get(f.id); {
	case v.Waits():
		whyGate(x, f, v, vw.m.Header.Now())
		return
	case r.Ending != rota.WorkflowNone && !v.Outlives(r.Ending):
		w.Detail = fmt.Sprintf("workflow %s ends as %s: the node is cancelled with the next entries", f.id, r.Ending)
	case left == 0:
		w.Detail = "its parents have " + ended + ": it is released with the next entries"
		x.WouldRun = append(x.WouldRun, "the next entry of the log applies")
	default:
		x.WouldRun = append(x.WouldRun, "its parents "+until+" (rota workflow show "+string(f.id)+")")
	}
	x.Reasons = append(x.Reasons, w)
}

// whyGate explains what a gate waits for.
func whyGate(x *rota.Explanation, f *flow, v *state.VertexRow, now rota.Moment) {
	w := rota.Why{Reason: "WAITING_FOR_SIGNAL",
		Detail: fmt.Sprintf("its parents have completed; it waits for a signal for %d ms now",
			now.Date-v.Gate.Since.Date)}
	switch due := v.Gate.Due; {
	case due == 0:
	case v.Gate.Terms.OnTimeout == rota.GateCompletes:
		w.Detail += fmt.Sprintf(", and completes on %s without one", due)
	default:
		w.Detail += fmt.Sprintf(", and expires on %s without one", due)
	}
	x.WouldRun = append(x.WouldRun, fmt.Sprintf("it is signalled (rota workflow signal %s %s)", f.id,
		state.VertexName(v)))
	x.Reasons = append(x.Reasons, w)
}

func (vw *View) whyQueued(x *rota.Explanation, j *state.JobRow, most int, rd *access.Reader) {
	names := rd.Has(rota.RightStatus, access.Everything, access.Everything)
	pending := vw.m.placement.registry.queues[j.Spec.Queue].pending
	if rd.Reads(access.Everything, j.Spec.Queue) {
		x.Before = pending.Before(j.Item)
		// It may depend on jobs of the type of any owner.
		score := rota.Score(sched.ScoreOf(vw.m.placement.lot(j.Spec.Queue), j.Item, vw.m.Header.Clock))
		x.Score = &score
	} else {
		x.Before = pending.BeforeOf(j.Item, func(t rota.TenantID) bool { return rd.Reads(t, j.Spec.Queue) })
	}
	x.Rank = x.Before
	blocked, fit := whyNot(vw, x, j, rd)
	backfills := vw.m.QueueTable.Get(j.Spec.Queue).Policy.Backfill != rota.BackfillFree
	if !backfills || vw.m.placement.holds.Get(j.Spec.ID) != nil {
		vw.whyHold(x, j, blocked, fit, names)
	}
	if blocked || fit == 0 && !backfills {
		return
	}
	rounds, draft := vw.decide(most, "", nil)
	for _, r := range rounds {
		for _, p := range r.GetPairs() {
			if p.GetJob() == string(j.Spec.ID) {
				text := "the next round applies"
				if names {
					text += fmt.Sprintf(": it goes to worker %s", p.GetWorker())
				}
				x.WouldRun = append(x.WouldRun, text)
				return
			}
		}
	}
	if draft != nil && (whyFirst(vw, x, j, draft.Reservations(), names) || whyPlanned(vw, x, j, draft, rd) || fit > 0 &&
		whyBehind(vw, x, j, draft, rd)) || fit == 0 {
		return
	}
	detail := "workers have room for it now, and the jobs before it take that room"
	if names {
		detail = fmt.Sprintf("%d %s", fit, detail)
	}
	x.Reasons = append(x.Reasons, rota.Why{Reason: "BEHIND_HIGHER_RANK", Detail: detail})
}

// whyNot adds the reasons why a QUEUED job is not placed: its own, which set blocked, and those of the workers, of
// which fit have room for it.
func whyNot(vw *View, x *rota.Explanation, j *state.JobRow, rd *access.Reader) (blocked bool, fit int64) {
	names := rd.Has(rota.RightStatus, access.Everything, access.Everything)
	q := vw.m.QueueTable.Get(j.Spec.Queue)
	vw.m.admission.obstacles(j, q, false, func(reason, detail string) bool {
		x.Reasons = append(x.Reasons, rota.Why{Reason: reason, Detail: detail})
		return true
	})
	blocked = len(x.Reasons) > 0
	vw.whyKeysLinger(x, j, rd)
	elsewhere, all := int64(0), int64(0)
	for _, n := range vw.m.placement.registry.supply.Faults(j.Ask()) {
		all += n.Workers
		switch n.Why {
		case sched.Fit:
			fit = n.Workers
		case sched.NotServingTheQueue:
			elsewhere = n.Workers // most workers of a large cluster: not a reason of this job
		case sched.HeldForAnotherJob:
			vw.whyHeld(x, j, rd)
		default:
			w := rota.Why{Reason: n.Why.String(), Workers: n.Workers, WorkerIDs: n.IDs, Detail: vw.ruleDetail(j, n)}
			if !names {
				w.WorkerIDs = nil
				if busy(n.Why) {
					w.Workers = 0
				}
				if n.Why == sched.NotActive || n.Why == sched.TypeDenylisted || n.Why == sched.CoolingDown {
					w.Detail = "" // it names workers
				}
			}
			x.Reasons = append(x.Reasons, w)
		}
	}
	switch {
	case all == 0:
		x.Reasons = append(x.Reasons, rota.Why{Reason: "NO_WORKER_REGISTERED",
			Detail: "no worker is there, for any queue"})
	case elsewhere == all:
		x.Reasons = append(x.Reasons, rota.Why{Reason: "NO_WORKER_REGISTERED",
			Detail: fmt.Sprintf("no worker serves queue %s; %d serve other queues", q.Name, elsewhere)})
	}
	return blocked, fit
}

// busy reports whether the number of workers that fail a rule depends on their leased jobs, whatever their owner.
func busy(why sched.Unfit) bool {
	switch why {
	case sched.NoFreeSlot, sched.NoSlotOffered, sched.UnitsExhausted, sched.CPUFull, sched.MemoryFull, sched.IOFull:
		return true
	}
	return false
}

// holdsShown is the maximum number of holds that an explanation names.
const holdsShown = 3

// whyHeld counts the workers held for other jobs, and names those jobs (SPEC §7.8).
func (vw *View) whyHeld(x *rota.Explanation, j *state.JobRow, rd *access.Reader) {
	var names []string
	var held []rota.WorkerID
	vw.m.placement.holds.Scan(func(id rota.JobID, h *state.HoldRow) bool {
		_, first := vw.m.placement.registry.supply.Fits(j.Ask(), h.Worker)
		if id == j.Spec.ID || first == sched.NotServingTheQueue || first == sched.NotThePinnedWorker ||
			first == sched.TypeNotHandled || first == sched.TenantNotGranted {
			return true
		}
		if held = append(held, h.Worker); len(held) <= holdsShown {
			if tenant, queue, _ := vw.PlaceOfJob(id); rd.Reads(tenant, queue) {
				names = append(names, fmt.Sprintf("worker %s is kept for job %s", h.Worker, id))
			} else {
				names = append(names, fmt.Sprintf("worker %s is kept for another job", h.Worker))
			}
		}
		return true
	})
	if len(held) == 0 {
		return // the held worker is held for this job
	}
	if len(held) > holdsShown {
		names = append(names, fmt.Sprintf("%d more for others", len(held)-holdsShown))
	}
	if slices.Sort(held); !rd.Has(rota.RightStatus, access.Everything, access.Everything) {
		x.Reasons = append(x.Reasons, rota.Why{Reason: sched.HeldForAnotherJob.String()})
		return
	}
	x.Reasons = append(x.Reasons, rota.Why{Reason: sched.HeldForAnotherJob.String(), Workers: int64(len(held)),
		WorkerIDs: held[:min(len(held), limits.MaxOthers)], Detail: strings.Join(names, ", ")})
}

// whyHold explains, for a job that lacks only room, that a worker is held for it, or when one will be (SPEC §7.8).
func (vw *View) whyHold(x *rota.Explanation, j *state.JobRow, blocked bool, fit int64, names bool) {
	supply := vw.m.placement.registry.supply
	due, most := j.QueuedAt+rota.Clock(vw.m.QueueTable.Get(j.Spec.Queue).Policy.HoldAfterMs), supply.MaxHolds()
	h := vw.m.placement.holds.Get(j.Spec.ID)
	text := ""
	switch {
	case h != nil && !names:
		text = fmt.Sprintf("a worker, kept for this job for %d ms now, has room", vw.m.Header.Clock-h.Since)
	case h != nil:
		text = fmt.Sprintf("worker %s, kept for this job for %d ms now, has room", h.Worker, vw.m.Header.Clock-h.Since)
	case blocked || fit > 0 || supply.Keepable(j.Ask(), true) == 0:
		return
	case due > vw.m.Header.Clock:
		text = fmt.Sprintf(
			"a worker that is kept for it has room: one is from %s on, in %d ms (hold_after), if fewer than %d are "+
				"kept for other jobs by then", vw.m.Header.Now().At(due).Date, due-vw.m.Header.Clock, most)
	case vw.m.placement.boundHolds() >= most:
		text = fmt.Sprintf(
			"a worker that is kept for it has room: one is as soon as fewer than %d are kept for other jobs", most)
	case supply.Keepable(j.Ask(), false) == 0:
		text = "a worker that is kept for it has room: one is as soon as one that fits is kept for no other job"
	default:
		text = "a worker that is kept for it has room: one is from the next round on, unless older jobs come first"
	}
	x.WouldRun = append(x.WouldRun, text)
}

// whyPlanned explains, for a job of a queue that backfills conservatively, where room is reserved for it, and which
// reservations it would delay (SPEC §26.3).
func whyPlanned(vw *View, x *rota.Explanation, j *state.JobRow, draft *sched.Draft, rd *access.Reader) bool {
	q := vw.m.QueueTable.Get(j.Spec.Queue)
	if q.Policy.Backfill != rota.BackfillConservative {
		return false
	}
	f := draft.Foretell(vw.m.placement.lot(q.Name), j.Item, vw.m.Header.Clock)
	if f.Deep {
		x.Reasons = append(x.Reasons, rota.Why{Reason: "BEHIND_HIGHER_RANK", Detail: fmt.Sprintf(
			"room is kept for %d jobs behind the first one, this one is beyond them, and nothing beyond them starts (backfill_depth)",
			q.Policy.BackfillDepth)})
		return true
	}
	if !f.Planned || len(f.Bars) == 0 && f.Kept.Until == vw.m.Header.Clock {
		return false
	}
	names := rd.Has(rota.RightStatus, access.Everything, access.Everything)
	whyFirst(vw, x, j, []sched.Reservation{f.Kept}, names)
	if len(f.Bars) > 0 {
		x.Reasons = append(x.Reasons, whyBarredBy(vw, j, q, f.Bars, rd))
	}
	return len(f.Bars) > 0
}

// whyFirst explains, for a job with a reservation, where room is reserved and from when there should be some (SPEC
// §26.3).
func whyFirst(vw *View, x *rota.Explanation, j *state.JobRow, kept []sched.Reservation, names bool) bool {
	for _, r := range kept {
		if r.Item != j.Item {
			continue
		}
		worker := "a worker"
		if names {
			worker = fmt.Sprintf("worker %s", r.Worker)
		}
		x.WouldRun = append(x.WouldRun,
			fmt.Sprintf("%s has room, which is kept for this job: from %s on, in %d ms, by the estimates of what "+
				"runs there", worker, vw.m.Header.Now().At(r.Until).Date, r.Until-vw.m.Header.Clock))
		return true
	}
	return false
}

// whyBehind explains why a job that some workers have room for may not pass the first of a queue.
func whyBehind(vw *View, x *rota.Explanation, j *state.JobRow, draft *sched.Draft, rd *access.Reader) bool {
	q := vw.m.QueueTable.Get(j.Spec.Queue)
	p := &q.Policy
	bars := draft.Bars(vw.m.placement.lot(q.Name), j.Item, vw.m.Header.Clock)
	others := slices.ContainsFunc(bars, func(r sched.Reservation) bool { return r.Queue != q.Name })
	switch {
	case len(bars) > 0 && (others || p.Backfill != rota.BackfillNone):
		x.Reasons = append(x.Reasons, whyBarredBy(vw, j, q, bars, rd))
	case p.Backfill == rota.BackfillNone:
		x.Reasons = append(x.Reasons, rota.Why{Reason: "BEHIND_HIGHER_RANK", Detail: fmt.Sprintf(
			"backfill=none: nothing of queue %s starts before the first that it has no room for", q.Name)})
	case draft.Deep(q.Name):
		x.Reasons = append(x.Reasons, rota.Why{Reason: "BEHIND_HIGHER_RANK", Detail: fmt.Sprintf(
			"more than %d jobs before it could overtake the first one, and backfilling looks at no more of them (backfill_depth)",
			p.BackfillDepth)})
	default:
		return false
	}
	return true
}

// whyBarredBy names the workers that have room for a job and reserve it for others.
func whyBarredBy(vw *View, j *state.JobRow, q *state.QueueRow, bars []sched.Reservation, rd *access.Reader) rota.Why {
	now := vw.m.Header.Now()
	w := rota.Why{Reason: sched.HeldForAnotherJob.String(), Workers: int64(len(bars))}
	if !rd.Has(rota.RightStatus, access.Everything, access.Everything) {
		w.Workers = 0
		return w
	}
	var texts []string
	for i, r := range bars {
		if i < limits.MaxOthers {
			w.WorkerIDs = append(w.WorkerIDs, r.Worker)
		}
		if i >= holdsShown {
			continue
		}
		first := "another job"
		if tenant, queue, _ := vw.PlaceOfJob(r.Item.ID); rd.Reads(tenant, queue) {
			first = fmt.Sprintf("job %s", r.Item.ID)
		}
		texts = append(texts, fmt.Sprintf("worker %s is kept for %s from %s on", r.Worker, first, now.At(r.Until).Date))
	}
	end := now.At(now.Clock + rota.Clock(q.Estimate(j)))
	w.Detail = fmt.Sprintf("%s: this one should run until %s (its estimate), and takes more than is left beside",
		strings.Join(texts, ", "), end.Date)
	return w
}

// barsShown is the maximum number of workers that an explanation names with a type's bar.
const barsShown = 3

// whyBarred names the workers of a queue that a type is barred from, those whose bar ends soonest first, each with
// cause and end (SPEC §16.1).
func (vw *View) whyBarred(typ rota.JobType, queue rota.QueueName, list func(*state.WorkerRow) []rota.TypeUntil) string {
	type barred struct {
		worker *state.WorkerRow
		rota.TypeUntil
	}
	var all []barred
	vw.m.fleet.workers.Scan(func(_ rota.WorkerID, w *state.WorkerRow) bool {
		if slices.Contains(w.Spec.Queues, queue) && w.Status != rota.WorkerRetired {
			for _, t := range list(w) {
				if t.Type == typ {
					all = append(all, barred{w, t})
				}
			}
		}
		return true
	})
	slices.SortStableFunc(all, func(a, b barred) int { return cmp.Compare(a.Until.Clock, b.Until.Clock) })
	var names []string
	for _, b := range all[:min(len(all), barsShown)] {
		cause := b.Cause.String()
		if at := slices.IndexFunc(b.worker.Failing, func(s state.Streak) bool { return s.Typ == typ }); at >= 0 &&
			b.Cause == rota.ReasonProviderFail {
			cause += fmt.Sprintf(", %d in a row", b.worker.Failing[at].N)
		}
		names = append(names, fmt.Sprintf("worker %s until %s (%s)", b.worker.Spec.ID,
			vw.m.Header.Now().At(b.Until.Clock).Date, cause))
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more workers", more))
	}
	return fmt.Sprintf("type %s on %s", typ, strings.Join(names, ", "))
}

// statusesShown is the maximum number of workers that an explanation names with their status.
const statusesShown = 3

// statuses returns the statuses other than ACTIVE of the first workers of a count.
func (vw *View) statuses(n sched.UnfitWorkers) string {
	var names []string
	for _, id := range n.IDs[:min(len(n.IDs), statusesShown)] {
		names = append(names, fmt.Sprintf("worker %s is %s", id, vw.m.fleet.workers.Get(id).Status))
	}
	if more := n.Workers - int64(len(names)); more > 0 {
		names = append(names, fmt.Sprintf("%d more are not ACTIVE", more))
	}
	return strings.Join(names, ", ")
}

// ruleDetail returns which value of the job meets which rule.
func (vw *View) ruleDetail(j *state.JobRow, n sched.UnfitWorkers) string {
	s, p := j.Spec, &vw.m.QueueTable.Get(j.Spec.Queue).Policy
	switch n.Why {
	case sched.NotActive:
		return vw.statuses(n)
	case sched.NoSlotOffered:
		return "the worker offers no slot now: it polls over HTTP, and no poll of it waits"
	case sched.RunsAlone:
		if j.Isolated() {
			return lossesText(j)
		}
		return "another job runs there alone, as workers were lost while they ran it"
	case sched.TypeNotHandled:
		return fmt.Sprintf("of type %s", s.Type)
	case sched.CapabilityMissing:
		return "requires " + strings.Join(s.Requires, ", ")
	case sched.RegionDenied:
		return regionsText(s.RegionsAllow, s.RegionsDeny)
	case sched.NotThePinnedWorker:
		return fmt.Sprintf("pinned to worker %s", s.Worker)
	case sched.TenantNotGranted:
		return fmt.Sprintf("no work for tenant %s is granted to who registered them", s.Tenant)
	case sched.CPUFull:
		return fmt.Sprintf("needs %d millicores", s.CPUMilli)
	case sched.MemoryFull:
		return fmt.Sprintf("needs %d bytes of memory", s.MemoryBytes)
	case sched.IOFull:
		return fmt.Sprintf("needs %d bytes of I/O a second", s.IOBytesPerS)
	case sched.LimitExceeded:
		return "needs " + limitsText(s.Limits)
	case sched.HealthTooLow:
		return fmt.Sprintf("min_health is %d", p.MinHealth)
	case sched.StakeTooLow:
		return fmt.Sprintf("min_stake is %d", p.MinStake)
	case sched.UnitsExhausted:
		return fmt.Sprintf("takes %d of units_per_period %d", max(s.Units, 1), p.UnitsPerPeriod)
	case sched.TypeDenylisted:
		return vw.whyBarred(s.Type, s.Queue, func(w *state.WorkerRow) []rota.TypeUntil { return w.Denied })
	case sched.CoolingDown:
		return vw.whyBarred(s.Type, s.Queue, func(w *state.WorkerRow) []rota.TypeUntil { return w.Cooling })
	}
	return ""
}

func regionsText(allow, deny []string) string {
	var parts []string
	if len(allow) > 0 {
		parts = append(parts, "allows "+strings.Join(allow, ", "))
	}
	if len(deny) > 0 {
		parts = append(parts, "denies "+strings.Join(deny, ", "))
	}
	return strings.Join(parts, "; ")
}

func limitsText(limits map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, limits[name]))
	}
	return strings.Join(parts, ", ")
}

// remedies are the actions that end a reason, by its name.
var remedies = map[string]string{
	"WORKFLOW_ENDING":       "", // the next entries cancel it
	"MODE_HOLDS":            "the mode becomes NORMAL (rota mode set NORMAL --reason …)",
	"QUEUE_PAUSED":          "the queue is resumed (rota queue resume)",
	"TENANT_AT_LIMIT":       "one of its tenant's open leases ends and the penalty is over, or max_concurrent is raised",
	"TENANT_WINDOW_FULL":    "the oldest part of its tenant's rolling window is over, or tenant_window_max is raised",
	"DOMAIN_ISOLATED":       "its failure domain's next probe is due, or the domain recovers",
	"NOT_YET_DUE":           "its time comes",
	"WORKER_NOT_STOPPED":    "that worker confirms that it has stopped, or its lease ends",
	"BACKING_OFF":           "its backoff is over",
	"BEHIND_HIGHER_RANK":    "the jobs before it are placed and room is left, or more workers register",
	"NO_FREE_SLOT":          "one of the workers that fit ends a lease",
	"NO_SLOT_OFFERED":       "one of the workers that fit asks for work (POST /v1/workers/ID/acquire)",
	"RUNS_ALONE":            "a worker that fits ends its other leases, or the lease of the job that runs there alone",
	"UNITS_EXHAUSTED":       "the units' period ends",
	"CPU_FULL":              "a worker that fits has enough cpu free",
	"MEMORY_FULL":           "a worker that fits has enough memory free",
	"IO_FULL":               "a worker that fits has enough I/O free",
	"HELD_FOR_ANOTHER_JOB":  "the job that the worker is kept for is placed",
	"NOT_ACTIVE":            "a worker becomes ACTIVE again (rota worker resume), or another registers",
	"DISCONNECTED":          "a worker whose stream broke connects again",
	"ATTESTATION_MISSING":   "a worker registers with an attestation (rota worker attest)",
	"ATTESTATION_EXPIRED":   "a worker registers with a fresh attestation (rota worker attest)",
	"STAKE_TOO_LOW":         "a worker registers with an attestation of more stake (rota worker attest --stake)",
	"COOLING_DOWN":          "a worker's cooldown is over",
	"TYPE_DENYLISTED":       "the denial of its type on a worker is over",
	"HEALTH_TOO_LOW":        "a worker's health is back at min_health: it grows by 1 a second",
	"REGION_DENIED":         "a worker in an allowed region registers",
	"CAPABILITY_MISSING":    "a worker registers that has everything the job requires",
	"LIMIT_EXCEEDED":        "a worker that offers such limits registers",
	"NOT_THE_PINNED_WORKER": "",
	"KEY_AT_LIMIT":          "a lease with that key ends (rota key show)",
	"KEY_RATE":              "the key's next token is there",
	"KEY_PAUSED":            "the key's pause ends, or is ended (rota key resume)",
	"BUDGET_SPENT":          "the budget's next period begins, more is granted (rota budget grant), or an open attempt ends below its estimate",
	"KEY_OPEN":              "a probe of the key succeeds, or rota key resume closes it",
	"WAITING_IN_SEQUENCE":   "that job has ended",
	"SEQUENCE_BLOCKED":      "that job completes after all (rota job retry), or somebody passes it (rota key skip)",
	"TENANT_NOT_GRANTED":    "a worker registers under a credential that grants work for its tenant (rota auth role set, rota auth token create)",
	"TYPE_NOT_HANDLED":      "a worker that handles its type registers (rota worker run --types …, or without --types for every type)",
}

// remedy describes the event that would end a reason, "" if no simple one does.
func (vw *View) remedy(j *state.JobRow, w rota.Why) string {
	pinned := vw.m.fleet.workers.Get(j.Spec.Worker)
	absent := j.Spec.Worker != "" && (pinned == nil || pinned.Status == rota.WorkerRetired)
	switch none := w.Reason == "NO_WORKER_REGISTERED"; {
	case absent && (none || w.Reason == "NOT_THE_PINNED_WORKER"):
		return fmt.Sprintf("worker %s, to which it is pinned, registers (rota worker run --id %s --queues %s)",
			j.Spec.Worker, j.Spec.Worker, j.Spec.Queue)
	case none:
		return fmt.Sprintf("a worker that serves its queue registers (rota worker run --queues %s)", j.Spec.Queue)
	}
	never := vw.m.placement.registry.supply.EverFits(j.Ask()) == 0
	switch {
	case never && w.Reason == "CPU_FULL":
		return fmt.Sprintf("a worker registers that has %d millicores or more and fits in all other respects",
			j.Spec.CPUMilli)
	case never && w.Reason == "MEMORY_FULL":
		return fmt.Sprintf("a worker registers that has %d bytes of memory or more and fits in all other respects",
			j.Spec.MemoryBytes)
	case never && w.Reason == "IO_FULL":
		return fmt.Sprintf("a worker registers that has %d bytes of I/O a second or more and fits in all other respects",
			j.Spec.IOBytesPerS)
	}
	return remedies[w.Reason]
}

// Reenact repeats the decision on the same state, with an entry's arrivals if there are any. For a job that the rounds
// placed it returns which other workers were considered and why they were not chosen. ok is false if the job got its
// worker otherwise: by a hold, or by the turn of the oldest. The state must not be read meanwhile.
func (m *Machine) Reenact(id rota.JobID, a *Arrivals, most int) (others []rota.OtherWorker, ok bool) {
	_, draft := m.decideWith(a, most, id, nil)
	if draft == nil {
		return nil, false
	}
	return draft.Watched()
}
