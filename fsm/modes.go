package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// lowPriority is the last priority that DEGRADED accepts (SPEC §4.3).
const lowPriority = 5

// modeChanged is the payload of that event.
type modeChanged struct {
	From   rota.ClusterMode `json:"from"`
	To     rota.ClusterMode `json:"to"`
	Reason string           `json:"reason"`
	Auto   bool             `json:"auto"`
}

// setMode changes the cluster's mode (SPEC §4.3). A leader's own change is an internal operation: it only switches
// between NORMAL and DEGRADED, and never overrides a mode that an operator set (SPEC §4.7).
func (lm *admission) setMode(op *fsmpb.SetMode) *fsmpb.Outcome {
	h := &lm.s.Header
	if op.GetAuto() {
		if o := lm.s.Internal(); o != nil {
			return o
		}
	}
	if err := checkMode(op); err != nil {
		return entry.Refused(err)
	}
	if h.Cluster == "" {
		return entry.Refused(rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again"))
	}
	to := rota.ClusterMode(op.GetMode())
	if op.GetAuto() && h.Mode != rota.ModeNormal && !h.ModeAuto {
		return entry.Refused(rota.Refusef(rota.KindConflict, "mode",
			"an operator set the mode %s (%s): no leader changes it", h.Mode,
			h.ModeReason))
	}
	// DEGRADED set by an operator always holds jobs.
	holds := to == rota.ModeDegraded && (op.GetHolds() || !op.GetAuto())
	if to == h.Mode && op.GetReason() == h.ModeReason && op.GetAuto() == h.ModeAuto && holds == h.ModeHolds {
		return &fsmpb.Outcome{Existed: true}
	}
	lm.enterMode(to, op.GetReason(), op.GetAuto(), holds)
	return &fsmpb.Outcome{}
}

func checkMode(op *fsmpb.SetMode) error {
	reason := op.GetReason()
	switch {
	case op.GetMode() > uint32(rota.ModeDraining):
		return rota.Refusef(rota.KindInvalid, "mode", "unknown mode %d: use NORMAL, DEGRADED, READ_ONLY or DRAINING",
			op.GetMode())
	case op.GetAuto() && op.GetMode() > uint32(rota.ModeDegraded):
		return rota.Refusef(rota.KindInvalid, "mode", "a leader sets NORMAL or DEGRADED by itself, not %s",
			rota.ClusterMode(op.GetMode()))
	case reason == "" && !op.GetAuto():
		return rota.Refusef(rota.KindInvalid, "reason", "reason is empty: say why, in 1 to %d bytes",
			limits.MaxReasonBytes)
	case len(reason) > limits.MaxReasonBytes:
		return rota.Refusef(rota.KindInvalid, "reason", "reason too long: got %d bytes, maximum %d", len(reason),
			limits.MaxReasonBytes)
	}
	return nil
}

// enterMode changes the mode and everything that depends on it. A period of holding begins if a leader held nothing
// before.
func (lm *admission) enterMode(to rota.ClusterMode, reason string, auto, holds bool) {
	h := &lm.s.Header
	from, until := h.Mode, h.HoldsUntil
	goesOn := h.ModeAuto && h.ModeHolds && auto && holds
	if to != from {
		h.ModeSince, h.Drained = h.Now(), false
	}
	h.Mode, h.ModeReason, h.ModeAuto, h.ModeHolds = to, reason, auto, holds
	switch {
	case !auto || !holds:
		h.HoldsUntil = 0
	case !goesOn:
		h.HoldsUntil = h.Clock + limits.MaxHoldsDegraded
	}
	lm.s.Timers.Mode.Refile("", int64(until), int64(h.HoldsUntil))
	lm.holdLow()
	lm.s.Journal.Emit(rota.Event{Kind: rota.EventModeChanged,
		Payload: state.Payload(modeChanged{from, to, reason, auto})})
}

// low returns how QUEUED jobs of priority > 5 are treated. holdsUntil is 0 once an automatic DEGRADED has held for its
// maximum time.
func (lm *admission) low() sched.LowHold {
	h := &lm.s.Header
	switch {
	case h.Mode != rota.ModeDegraded || !h.ModeHolds:
		return sched.LowFree
	case h.ModeAuto && h.HoldsUntil == 0:
		return sched.LowOldestOnly
	default:
		return sched.LowHeld
	}
}

// holdLow applies that to all lanes.
func (lm *admission) holdLow() {
	low := lm.low()
	lm.s.QueueTable.Scan(func(name rota.QueueName, _ *state.QueueRow) bool {
		lm.placement.registry.queues[name].pending.HoldLow(low)
		return true
	})
}

// fireMode ends the period for which an automatic DEGRADED holds jobs (SPEC §4.7).
func (lm *admission) fireMode(string) {
	lm.s.Timers.Mode.Refile("", int64(lm.s.Header.HoldsUntil), 0)
	lm.s.Header.HoldsUntil = 0
	lm.holdLow()
}

// modeHolds reports whether the mode keeps a QUEUED job of a priority from starting.
func (lm *admission) modeHolds(priority int32, turn bool) bool {
	if lm.s.Header.Mode == rota.ModeReadOnly {
		return true
	}
	low := lm.low()
	return priority > lowPriority && (low == sched.LowHeld || low == sched.LowOldestOnly && !turn)
}

// settleMode sets `drained` when DRAINING has finished all work: nothing is QUEUED or leased, nothing waits for a time
// on the clock, and no workflow node is to be released or cancelled. Jobs that wait for a date may be years away: they
// do not delay it, and stay. Jobs of a paused queue do delay it: they are queued work that an operator prevents from
// being done. A retry, or a date that comes, is new work, after which `drained` is set again.
func (lm *admission) settleMode() {
	h := &lm.s.Header
	idle := lm.leasing.leases.Len() == 0 && lm.placement.registry.busy.Len() == 0 && lm.s.Timers.Wake.Len() == 0 &&
		lm.flows.flowIndex.ready.Len() == 0 &&
		lm.flows.flowIndex.passing.Len() == 0
	if h.Mode != rota.ModeDraining || h.Drained == idle {
		return
	}
	if h.Drained = idle; idle {
		lm.s.Journal.Emit(rota.Event{Kind: rota.EventDrained})
	}
}

// admitMode refuses what the mode does not accept. It is not called for retries and children of workflows, as they are
// not new work.
func (lm *admission) admitMode(spec *rota.JobSpec) error {
	h := &lm.s.Header
	switch h.Mode {
	case rota.ModeNormal:
		return nil
	case rota.ModeDegraded:
		if spec.Priority <= lowPriority {
			return nil
		}
		return rota.Refusef(rota.KindMode, "mode",
			"the cluster is DEGRADED (%s): priority %d is refused, 0 to %d are taken",
			h.ModeReason, spec.Priority, lowPriority)
	case rota.ModeReadOnly:
		return rota.Refusef(rota.KindMode, "mode",
			"the cluster is READ_ONLY (%s): no job is taken until the mode changes, what "+
				"runs may finish", h.ModeReason)
	default:
		return rota.Refusef(rota.KindMode, "mode",
			"the cluster is %s (%s): no job is taken any more, what is queued is worked off",
			h.Mode, h.ModeReason)
	}
}

// mode checks the data derived from the mode.
func (c *checker) mode() {
	h := &c.m.Header
	if h.ModeHolds && h.Mode != rota.ModeDegraded || h.ModeAuto && h.Mode > rota.ModeDegraded ||
		h.HoldsUntil != 0 && !(h.ModeAuto && h.ModeHolds) || h.Drained && h.Mode != rota.ModeDraining {
		c.fault("I4: mode %s, automatic %v, holds %v until %d, drained %v do not go together", h.Mode, h.ModeAuto,
			h.ModeHolds, h.HoldsUntil, h.Drained)
	}
	if h.ModeSince.Clock > h.Clock {
		c.fault("I6: the mode is since %d, after the clock", h.ModeSince.Clock)
	}
}
