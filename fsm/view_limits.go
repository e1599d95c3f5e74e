package fsm

import (
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// Mode returns the cluster's mode and its reason (SPEC §4.3).
func (vw *View) Mode() rota.ModeStatus {
	h := &vw.m.Header
	return rota.ModeStatus{Mode: h.Mode, Reason: h.ModeReason, Since: h.ModeSince, Auto: h.ModeAuto, Holds: h.ModeHolds,
		Drained: h.Drained, Index: h.Index}
}

// Tenant returns a tenant; one without a row has the default limits.
func (vw *View) Tenant(id rota.TenantID) rota.Tenant {
	if r := vw.m.admission.tenants.Get(id); r != nil {
		return vw.tenantWords(r)
	}
	_, etag := tenantText(nil, id)
	return rota.Tenant{ID: id, TenantLimits: rota.DefaultTenantLimits(), Bytes: vw.m.Ledger.Tally.Tenants.Get(id),
		ETag: etag}
}

// Tenants lists by id the tenants that were set or that have leases open.
func (vw *View) Tenants() []rota.Tenant {
	list := make([]rota.Tenant, 0, vw.m.admission.tenants.Len())
	vw.m.admission.tenants.Scan(func(_ rota.TenantID, r *state.TenantRow) bool {
		list = append(list, vw.tenantWords(r))
		return true
	})
	return list
}

func (vw *View) tenantWords(r *state.TenantRow) rota.Tenant {
	t := rota.Tenant{ID: r.ID, TenantLimits: r.Limits, Open: r.Open, Throttled: r.ThrottledAt > 0, Known: r.Known,
		ETag:  r.ETag(),
		Bytes: vw.m.Ledger.Tally.Tenants.Get(r.ID)}
	if rate := r.Limits.RateLimitRPS; rate > 0 {
		t.RateLeft = rate
		if measured := vw.m.admission.limiters.Get(state.LimiterKey("", r.ID)); measured != nil {
			t.RateLeft = state.BucketOf(rate, rate).Tokens(measured.Tat, vw.m.Header.Clock)
		}
	}
	return t
}

// QueueInFull returns a queue with its failure domains and, if it is adaptive, the statistics of types; the caller must
// fill in their Weight (SPEC §2.2).
func (vw *View) QueueInFull(name rota.QueueName) (rota.Queue, bool) {
	q, ok := vw.Queue(name)
	if !ok {
		return q, false
	}
	vw.m.admission.domains.Scan(func(_ string, r *state.DomainRow) bool {
		if r.Queue == name {
			q.Domains = append(q.Domains, vw.domainWords(r))
		}
		return true
	})
	if q.Policy.Ranking == rota.RankAdaptive {
		q.Types = vw.m.typeStats.TypeWords(vw.m.QueueTable.Get(name))
	}
	return q, true
}

// domainWords returns a domain with the unexpired counts of its window (SPEC §4.8).
func (vw *View) domainWords(r *state.DomainRow) rota.Domain {
	d := rota.Domain{Queue: r.Queue, Name: r.Name, Isolated: r.Isolated, Since: r.Since}
	for _, s := range r.Window {
		if s.Ok+s.Fail > 0 && vw.m.Header.Clock-s.Since < limits.WindowSlots*limits.WindowSlotMs {
			d.Outcomes += s.Ok + s.Fail
			d.Failures += s.Fail
		}
	}
	return d
}

// IsolatedDomains returns the number of failure domains that are isolated now.
func (vw *View) IsolatedDomains() (n int64) {
	vw.m.admission.domains.Scan(func(_ string, r *state.DomainRow) bool {
		if r.Isolated {
			n++
		}
		return true
	})
	return n
}

// ThrottledTenants returns the number of tenants whose lanes wait at max_concurrent.
func (vw *View) ThrottledTenants() (n int64) {
	vw.m.admission.tenants.Scan(func(_ rota.TenantID, r *state.TenantRow) bool {
		if r.ThrottledAt > 0 {
			n++
		}
		return true
	})
	return n
}

// WorkersByStatus returns the number of workers; the index is the status.
func (vw *View) WorkersByStatus() (counts [rota.WorkerUnreachable + 1]int64) {
	vw.m.fleet.workers.Scan(func(_ rota.WorkerID, r *state.WorkerRow) bool {
		counts[r.Status]++
		return true
	})
	return counts
}

// usage returns in permille how full a queue, its workers, and their max_queue_size are (SPEC §4.6); the last is 0 if
// it bounds nothing.
func (vw *View) usage(r *state.QueueRow) (queue, leases, backlog int64) {
	open, room := vw.m.admission.load(r)
	ready, most := vw.m.admission.backlog(r)
	return r.Pending() * 1000 / max(1, r.Policy.QueueCap), open * 1000 / room,
		ready * 1000 / max(1, most) * min(1, most)
}

// FullestQueue returns the fullest queue, the first by name among equals, and how full it is, in permille of its
// queue_cap. A leader degrades by it (SPEC §4.7).
func (vw *View) FullestQueue() (name rota.QueueName, permille int64) {
	vw.m.QueueTable.Scan(func(n rota.QueueName, r *state.QueueRow) bool {
		if full, _, _ := vw.usage(r); name == "" || full > permille {
			name, permille = n, full
		}
		return true
	})
	return name, permille
}

// reputationWords sets a worker's reputation at this moment (SPEC §6.2): health as it has grown since, cooling and
// denied types that are not over.
func reputationWords(w *rota.Worker, r *state.WorkerRow, at rota.Moment) {
	now := at.Clock
	w.Health = r.HealthNow(now)
	w.Load = loadOf(r)
	w.Slashed, w.InvalidProofs, w.AttestedUntil = r.Slashed, r.InvalidProofs, r.AttestedUntil
	if r.Attested() {
		w.AttestedStake = r.AttestedStake
	}
	w.JailedUntil = at.At(r.JailedUntil) // of a SUSPENDED or RETIRED one too, if it comes back
	w.Cooling, w.Denied = untilWords(r.Cooling, at), untilWords(r.Denied, at)
	for _, u := range r.Units {
		if now < u.Until.Clock {
			u.Until = at.At(u.Until.Clock)
			w.Units = append(w.Units, u)
		}
	}
}

// untilWords returns the types of a list that are not over, with the dates of their ends.
func untilWords(list []rota.TypeUntil, now rota.Moment) []rota.TypeUntil {
	left := lasting(list, now.Clock)
	for i := range left {
		left[i].Until = now.At(left[i].Until.Clock)
	}
	return left
}

// loadOf returns Idle without leases, Busy within its slots, and Overloaded if it has more leases than it runs at once
// (SPEC §6.3).
func loadOf(r *state.WorkerRow) string {
	switch {
	case r.Open == 0:
		return "Idle"
	case r.Open <= r.Spec.Slots:
		return "Busy"
	default:
		return "Overloaded"
	}
}

// WorkflowTotals are figures over all workflows, for metrics.
type WorkflowTotals struct {
	// ByState counts the kept workflows, including those whose nodes are still arriving.
	ByState [rota.WorkflowCancelled + 1]int64
	// Blocked counts the nodes of RUNNING ones that wait for their parents, Live those that have a job.
	Blocked, Live int64
	// Pending counts the nodes that later entries have to look at: to release, skip, cancel, take back or forget them.
	Pending int64
}

// WorkflowTotals reads each workflow's row, and none of its nodes.
func (vw *View) WorkflowTotals() (t WorkflowTotals) {
	vw.m.flows.workflows.Scan(func(_ rota.WorkflowID, r *state.WorkflowRow) bool {
		if r.Leaving {
			t.Pending += int64(r.Added - r.Cursor)
			return true
		}
		t.ByState[r.State]++
		if r.State == rota.WorkflowRunning {
			t.Blocked += int64(r.Blocked)
			t.Live += int64(r.Live)
		}
		if r.Passing() {
			t.Pending += int64(r.Nodes - r.Cursor)
		}
		return true
	})
	vw.m.flows.flowIndex.ready.Scan(func(_ uint64, f *flow) bool {
		t.Pending += int64(f.work.Len())
		return true
	})
	return t
}

// LanesOf returns the largest lanes of a queue, or those with the oldest jobs, of tenants that rd may read. Each has
// the reasons why none of its jobs is placed; none if it only waits for its turn.
func LanesOf(vw *View, query peer.LanesQuery, rd *access.Reader) (list peer.Lanes, ok bool) {
	name := query.Queue
	i := vw.m.placement.registry.queues[name]
	if i == nil {
		return list, false
	}
	list = peer.Lanes{Queue: name, First: []peer.Lane{}}
	if rd.Reads(access.Everything, name) {
		list.Lanes, list.Throttled = int64(i.pending.Lanes()), int64(i.pending.ThrottledLanes())
	}
	may := make(map[rota.TenantID]bool)
	first := i.pending.Largest
	if query.Oldest {
		first = i.pending.LongestWait
	}
	for _, l := range first(query.Most, func(t rota.TenantID) bool {
		seen, known := may[t]
		if !known {
			seen = rd.Reads(t, name)
			may[t] = seen
		}
		return seen
	}) {
		j := vw.m.JobTable.Get(l.Head.ID)
		var x rota.Explanation
		if blocked, fit := whyNot(vw, &x, j, rd); !blocked && fit > 0 {
			x.Reasons = nil // some worker has room: it waits for its turn
		}
		s := j.Spec
		list.First = append(list.First, peer.Lane{Tenant: s.Tenant, Type: s.Type, Domain: s.Domain, Keys: s.Keys,
			Jobs:       int64(l.Jobs),
			OldestWait: time.Duration(vw.m.Header.Clock-l.Oldest) * time.Millisecond, Oldest: l.Aged.ID, Head: s.ID,
			Priority: s.Priority, Throttled: l.Throttled, Reasons: x.Reasons})
	}
	return list, true
}

// PreviewTenant is PreviewQueue for a tenant.
func PreviewTenant(vw *View, op *fsmpb.Op) (rota.Tenant, error) {
	wanted, err := vw.m.admission.wantTenant(op.GetSetTenant(), rota.Principal(op.GetActor()))
	if err != nil {
		return rota.Tenant{}, err
	}
	t := vw.Tenant(rota.TenantID(op.GetSetTenant().GetId()))
	if t.Changes = t.TenantLimits.Differences(wanted); !t.Known {
		t.Changes = append([]rota.SettingChange{{Key: "known", From: "false", To: "true"}}, t.Changes...)
	}
	if len(t.Changes) > 0 {
		err = access.Matches(op.GetIfMatch(), fmt.Sprintf("tenant %q", t.ID), t.ETag)
	}
	t.TenantLimits, t.Known, t.ETag = wanted, true, state.TenantETag(true, wanted)
	return t, err
}

// PreviewCluster is PreviewQueue for the cluster's settings.
func PreviewCluster(vw *View, op *fsmpb.Op) (rota.ClusterSettings, error) {
	wanted, err := vw.m.admission.wantCluster(op.GetSetCluster())
	if err != nil {
		return wanted, err
	}
	if wanted.Changes = vw.m.Header.Settings.Differences(&wanted); len(wanted.Changes) > 0 {
		err = access.Matches(op.GetIfMatch(), "the cluster's settings", vw.m.Header.SettingsETag())
	}
	wanted.ETag = state.ClusterETag(&wanted)
	return wanted, err
}

// BudgetsWithPeriods lists the budgets that begin again, by name.
func BudgetsWithPeriods(vw *View) []DueBudget { return vw.m.budgets.WithPeriods() }

// BudgetStates lists the budgets that a caller may see, by name: those with an open question if asking is set.
func BudgetStates(vw *View, asking bool, see func(*rota.Budget) bool) []rota.BudgetState {
	return vw.m.budgets.States(asking, see)
}

// BudgetOf returns a budget.
func BudgetOf(vw *View, name rota.BudgetName) (rota.BudgetState, bool) {
	return vw.m.budgets.State(name)
}

// BudgetAccounts lists up to a number of accounts of a budget, by owner, from one of them on: those that hold jobs back
// if held is set. The only account of a budget is listed even if it holds nothing.
func BudgetAccounts(vw *View, name rota.BudgetName, from string, most int, held bool) []rota.BudgetAccount {
	return vw.m.budgets.Accounts(name, from, most, held)
}

// BudgetQuestions lists up to a number of the open questions of a budget, by owner, from one of them on: those that
// hold jobs back if held is set.
func BudgetQuestions(vw *View, name rota.BudgetName, from string, most int, held bool) []rota.BudgetAccount {
	return vw.m.budgets.Questions(name, from, most, held)
}

// HeldAccounts returns the number of accounts that hold jobs back, and of open questions.
func HeldAccounts(vw *View) (held, asking int64) { return vw.m.budgets.Held() }
