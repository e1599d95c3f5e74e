package rota

// Backfill determines which jobs may start before the first job of a queue if that job finds no room (SPEC §26.3).
type Backfill uint8

// The ways of backfilling.
const (
	// BackfillFree starts any job that fits; holds (SPEC §7.8) limit this.
	BackfillFree Backfill = iota
	// BackfillNone lets nothing of the queue start before its first job does.
	BackfillNone
	// BackfillEasy reserves room for the first job at the earliest possible time, and starts other jobs if they do not
	// delay it.
	BackfillEasy
	// BackfillConservative reserves room for each pending job, and starts other jobs if they delay none of those before
	// them.
	BackfillConservative
)

var backfillNames = []string{"free", "none", "easy", "conservative"}

// String names it as the policy key does.
func (b Backfill) String() string { return nameOf(backfillNames, int(b)) }

// BackfillOrder is the order of the jobs that may be backfilled.
type BackfillOrder uint8

// The orders of backfilling.
const (
	// BackfillByRank looks at them in the order of the queue's ranking.
	BackfillByRank BackfillOrder = iota
	// BackfillShortest considers jobs with the smallest estimate first.
	BackfillShortest
)

var backfillOrderNames = []string{"rank", "shortest"}

// String names it as the policy key does.
func (o BackfillOrder) String() string { return nameOf(backfillOrderNames, int(o)) }

// backfillKeys are the keys of batch scheduling.
var backfillKeys = []policyKey{
	key("shortest_aging", "", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.ShortestAging },
		"SPEC §26.2", "ranking=shortest or smallest: after how many times its estimate, or its share of it, a job comes before any that is submitted then.").off("estimates alone order"),
	choiceKey("backfill", backfillNames, func(p *QueuePolicy) *Backfill { return &p.Backfill },
		"SPEC §26.3", "Which jobs may pass the first job that finds no room: all that fit, none, those that do not delay it, or those that delay no earlier job. Not with ranking=adaptive."),
	choiceKey("backfill_order", backfillOrderNames, func(p *QueuePolicy) *BackfillOrder { return &p.BackfillOrder },
		"SPEC §26.3", "backfill=easy: the order in which jobs that may pass are tried."),
	key("backfill_depth", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.BackfillDepth },
		"SPEC §26.3", "How many jobs a round looks at that have room but may have to leave it to one that room is kept for."),
}

// checkBackfill rejects backfilling together with an order of jobs that is not stable.
func (p *QueuePolicy) checkBackfill() error {
	if p.Backfill != BackfillFree && p.Ranking == RankAdaptive {
		return Refusef(KindInvalid, "backfill", "backfill=%s does not work with ranking=%s, whose order changes every round: "+
			"use another ranking, or backfill=free", p.Backfill, p.Ranking)
	}
	return nil
}
