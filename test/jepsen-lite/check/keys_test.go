package check

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
)

// keyedBy lets separate workers hold jobs of a key, each from one moment to another.
func keyedBy(f KeyFacts, spans ...[2]int64) func(s *story) {
	return func(s *story) {
		for i, at := range spans {
			id, token := fmt.Sprint("k", i), uint64(10+i)
			f.Jobs = append(f.Jobs, id)
			s.submitted(id, 900).worked(fmt.Sprintf("w%d.1", i), id, token, at[0], at[1], DidComplete, OK)
			s.ended(id, "quick", "COMPLETED", fmt.Sprintf("%s/1.%d", id, token), token)
		}
		s.h.Keyed = []KeyFacts{f}
	}
}

func TestKeysBite(t *testing.T) {
	t.Parallel()
	few, line := KeyFacts{Key: "few:1", Most: 2}, KeyFacts{Key: "line:1", Most: 1, Sequence: true}
	paused := func(do func(s *story), who string, from, to int64) func(s *story) {
		return func(s *story) {
			do(s)
			s.h.Changes = append(s.h.Changes, Change{0, who, IsUp}, Change{ms(from), who, IsPaused},
				Change{ms(to), who, IsUp})
		}
	}
	bites(t, []plant{
		{"three_of_two", "keys", keyedBy(few, [2]int64{1_000, 2_000}, [2]int64{1_100, 1_300}, [2]int64{1_200, 1_250})},
		{"two_in_a_line", "keys", keyedBy(line, [2]int64{1_000, 2_000}, [2]int64{1_999, 2_500})},
		{"the_second_first", "keys", keyedBy(line, [2]int64{1_500, 2_000}, [2]int64{1_000, 1_400})},
		{"long_after_a_pause", "keys", paused(keyedBy(line, [2]int64{1_000, 9_000}, [2]int64{8_500, 9_500}), "w0",
			2_000, 7_000)},
	})
	spares(t, []plant{
		{"two_of_two", "keys", keyedBy(few, [2]int64{1_000, 2_000}, [2]int64{1_100, 1_300}, [2]int64{1_300, 1_400})},
		{"one_after_the_other", "keys", keyedBy(line, [2]int64{1_000, 2_000}, [2]int64{2_000, 2_500})},
		{"paused_meanwhile", "keys", paused(keyedBy(line, [2]int64{1_000, 9_000}, [2]int64{8_500, 9_500}), "w0", 2_000,
			8_800)},
	})
}

// dated adds dates of a schedule, in milliseconds since a minute.
func (s *story) dated(kind string, at int64, count uint64) *story {
	const minute = 1_700_000_040_000
	e := SeenEvent{Kind: kind, Schedule: "tick", Date: rota.Date(minute + at), Count: count}
	if kind == "scheduleFired" {
		e.Job = string(rota.RunID("tick", e.Date, ""))
		s.ended(e.Job, "quick", "QUEUED", "")
	}
	s.h.Events = append(s.h.Events, e)
	return s
}

func TestSchedulesBite(t *testing.T) {
	t.Parallel()
	with := func(f ScheduleFacts, tell func(s *story)) func(s *story) {
		return func(s *story) {
			f.Name, f.EveryMs = "tick", 1_000
			s.h.Schedules = []ScheduleFacts{f}
			tell(s)
		}
	}
	some := func(s *story) {
		s.dated("scheduleFired", 1_000, 0).dated("scheduleSkipped", 2_000, 0).dated("scheduleMissed", 4_000,
			2).dated("scheduleFired", 5_000, 0)
	}
	counts := ScheduleFacts{Known: true, Runs: 2, Skipped: 1, Missed: 2}
	bites(t, []plant{
		{"a_date_twice", "schedules", with(ScheduleFacts{}, func(s *story) {
			s.dated("scheduleFired", 1_000, 0).dated("scheduleSkipped", 1_000, 0)
		})},
		{"a_date_left_out", "schedules", with(ScheduleFacts{},
			func(s *story) { s.dated("scheduleFired", 1_000, 0).dated("scheduleFired", 3_000, 0) })},
		{"it_counts_otherwise", "schedules", with(ScheduleFacts{Known: true, Runs: 3, Skipped: 1, Missed: 2}, some)},
		{"a_run_is_gone", "schedules", with(counts,
			func(s *story) { some(s); s.h.Final = s.h.Final[:len(s.h.Final)-1] })},
		{"a_run_of_nobody", "schedules", with(counts, func(s *story) {
			some(s)
			s.ended(string(rota.RunID("tick", 1_700_000_049_000, "")), "quick", "QUEUED", "")
		})},
	})
	spares(t, []plant{{"all_is_well", "schedules", with(counts, some)}})
}
