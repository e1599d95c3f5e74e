package cluster

import (
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/zones"
	"github.com/rotasched/rota/fsm"
)

// maxIdle bounds the result of Idle.
const maxIdle = time.Hour

// Idle returns the time until something is due if no call arrives: until then this node's chores have nothing to do. It
// is 0 while work is in progress, and on a node that is not the leader.
func (n *Node) Idle() time.Duration {
	l := n.terms.leading()
	if l == nil || l.workersPresent() {
		return 0
	}
	var rest, going, timed, dated bool
	var clock rota.Clock
	var date rota.Date
	var schedules []fsm.DueSchedule
	var budgets []fsm.DueBudget
	var in zones.InForce
	n.replica.Look(func(s *fsm.View) {
		rest, going = s.AtRest(), fsm.Going(s)
		clock, timed = fsm.NextClock(s)
		date, dated = s.NextDate()
		schedules, budgets, in = fsm.ActiveOf(s), fsm.BudgetsWithPeriods(s), zones.Of(s)
	})
	if going {
		return 0
	}
	left := int64(maxIdle / time.Millisecond)
	if !rest && timed {
		left = min(left, int64(clock-l.clockNow()))
	}
	wall := l.WallNow()
	if dated {
		left = min(left, int64(date)-wall)
	}
	zones, err := n.zones.Open(in)
	if err != nil {
		schedules, budgets = nil, nil // the scheduler logs it
	}
	for i := range budgets {
		if _, err := zones.Of(&budgets[i].Times, 0); err == nil {
			left = min(left, int64(budgets[i].Until)-wall)
		}
	}
	for i := range schedules {
		table, err := zones.Of(schedules[i].Times, schedules[i].Set)
		if err != nil {
			continue // the scheduler reports it
		}
		if next, ok := table.Next(int64(schedules[i].Through)); ok {
			left = min(left, next-wall)
		}
	}
	return time.Duration(max(0, left)) * time.Millisecond
}

// clockNow returns the clock that an entry would be stamped with now.
func (l *leadership) clockNow() rota.Clock {
	l.mu.Lock()
	defer l.mu.Unlock()
	passed := rota.Clock((l.n.sinceBoot() - l.lastAt) / time.Millisecond)
	return min(l.lastStamp+passed, l.c+l.n.stampLead())
}
