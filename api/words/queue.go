package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/millis"
)

// SettingsToWire converts key=value pairs.
func SettingsToWire(set []rota.Setting) []*rotav1.Setting {
	return each(set, func(s *rota.Setting) *rotav1.Setting {
		return &rotav1.Setting{Key: s.Key,
			Value: s.Value}
	})
}

// SettingsFromWire is the inverse of SettingsToWire.
func SettingsFromWire(w []*rotav1.Setting) []rota.Setting {
	return each(w, func(s **rotav1.Setting) rota.Setting {
		return rota.Setting{Key: (*s).GetKey(), Value: (*s).GetValue()}
	})
}

func changesToWire(changes []rota.SettingChange) []*rotav1.SettingChange {
	return each(changes, func(c *rota.SettingChange) *rotav1.SettingChange {
		return &rotav1.SettingChange{Key: c.Key, From: c.From, To: c.To}
	})
}

func changesFromWire(w []*rotav1.SettingChange) []rota.SettingChange {
	return each(w, func(c **rotav1.SettingChange) rota.SettingChange {
		return rota.SettingChange{Key: (*c).GetKey(), From: (*c).GetFrom(), To: (*c).GetTo()}
	})
}

// QueueToWire converts a queue with its whole policy.
func QueueToWire(q *rota.Queue) *rotav1.Queue {
	return &rotav1.Queue{
		Name: string(q.Name), Preset: q.Policy.Preset, Policy: SettingsToWire(q.Policy.Settings()),
		Pending: q.Pending, Blocked: q.Blocked, Delayed: q.Delayed, Queued: q.Queued, Assigned: q.Assigned,
		Running: q.Running, SubmittedTotal: q.SubmittedTotal, AssignedTotal: q.AssignedTotal,
		CompletedTotal: q.CompletedTotal, DeadTotal: q.DeadTotal, ExpiredTotal: q.ExpiredTotal,
		CancelledTotal: q.CancelledTotal, Staged: q.Staged, Lanes: q.Lanes, Workers: q.Workers,
		OldestWaitMs:  millis.Of(q.OldestWait),
		UsagePermille: q.UsagePermille, LeaseUsagePermille: q.LeaseUsagePermille,
		BacklogUsagePermille: q.BacklogUsagePermille, Bytes: q.Bytes,
		ThrottledLanes: q.Throttled,
		Backpressure:   q.Backpressure, Tiers: q.Tiers, Domains: each(q.Domains, domainToWire),
		Types: each(q.Types, typeStatsToWire), Changes: changesToWire(q.Changes), Etag: q.ETag,
	}
}

// QueueFromWire is the inverse of QueueToWire. A policy key that this version does not know is rejected: otherwise half
// a policy would be shown as a whole one.
func QueueFromWire(w *rotav1.Queue) (rota.Queue, error) {
	q := rota.Queue{
		Name: rota.QueueName(w.GetName()), Policy: rota.StandardPolicy(),
		Pending: w.GetPending(), Blocked: w.GetBlocked(), Delayed: w.GetDelayed(), Queued: w.GetQueued(),
		Assigned: w.GetAssigned(), Running: w.GetRunning(), SubmittedTotal: w.GetSubmittedTotal(),
		AssignedTotal: w.GetAssignedTotal(), CompletedTotal: w.GetCompletedTotal(), DeadTotal: w.GetDeadTotal(),
		ExpiredTotal: w.GetExpiredTotal(), CancelledTotal: w.GetCancelledTotal(), Staged: w.GetStaged(),
		Lanes:   w.GetLanes(),
		Workers: w.GetWorkers(), OldestWait: millis.Duration(w.GetOldestWaitMs()), UsagePermille: w.GetUsagePermille(),
		LeaseUsagePermille: w.GetLeaseUsagePermille(), BacklogUsagePermille: w.GetBacklogUsagePermille(),
		Bytes:        w.GetBytes(),
		Throttled:    w.GetThrottledLanes(),
		Backpressure: w.GetBackpressure(), Tiers: w.GetTiers(), Domains: each(w.GetDomains(), domainFromWire),
		Types: each(w.GetTypes(), typeStatsFromWire), Changes: changesFromWire(w.GetChanges()), ETag: w.GetEtag(),
	}
	q.Policy.Preset = w.GetPreset()
	for _, s := range w.GetPolicy() {
		if err := q.Policy.Set(rota.Setting{Key: s.GetKey(), Value: s.GetValue()}); err != nil {
			return q, err
		}
	}
	return q, nil
}

func domainToWire(d *rota.Domain) *rotav1.Domain {
	return &rotav1.Domain{Queue: string(d.Queue), Name: d.Name, Isolated: d.Isolated, SinceMs: int64(d.Since.Date),
		SinceClockMs: int64(d.Since.Clock), Outcomes: d.Outcomes, Failures: d.Failures}
}

func domainFromWire(w **rotav1.Domain) rota.Domain {
	d := *w
	return rota.Domain{Queue: rota.QueueName(d.GetQueue()), Name: d.GetName(), Isolated: d.GetIsolated(),
		Since: moment(d.GetSinceMs(), d.GetSinceClockMs()), Outcomes: d.GetOutcomes(), Failures: d.GetFailures()}
}

func typeStatsToWire(t *rota.TypeStats) *rotav1.TypeStats {
	return &rotav1.TypeStats{Type: string(t.Type), Success: t.Success, Fail: t.Fail, EmaUs: t.EMA.Microseconds(),
		ExpectedMs: millis.Of(t.Expected), Weight: t.Weight}
}

func typeStatsFromWire(w **rotav1.TypeStats) rota.TypeStats {
	t := *w
	return rota.TypeStats{Type: rota.JobType(t.GetType()), Success: t.GetSuccess(), Fail: t.GetFail(),
		EMA: millis.Micros(t.GetEmaUs()), Expected: millis.Duration(t.GetExpectedMs()), Weight: t.GetWeight()}
}

// QueuesFromWire converts a list of queues.
func QueuesFromWire(w []*rotav1.Queue) ([]rota.Queue, error) { return tryEach(w, QueueFromWire) }
