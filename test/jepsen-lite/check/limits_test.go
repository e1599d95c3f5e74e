package check

import (
	"testing"
)

// budgeted adds jobs x, y and z under a budget of 10: x and y of account k for 6 each, z of account q for 9.
func budgeted(do func(s *story)) func(s *story) {
	return func(s *story) {
		s.h.Budgets = []BudgetFacts{{Name: "chaos", Unit: "u", Limit: 10,
			Accounts:  map[string]string{"x": "k", "y": "k", "z": "q"},
			Estimates: map[string]int64{"x": 6, "y": 6, "z": 9}}}
		for i, id := range []string{"x", "y", "z"} {
			s.submitted(id, 900).happened("jobEnqueued", id, 0, "")
			s.ended(id, "quick", "QUEUED", "", uint64(11+i))
		}
		do(s)
	}
}

// spent lets the newest event say what its attempt spent.
func (s *story) spent(amount int64) *story {
	e := &s.h.Events[len(s.h.Events)-1]
	e.Spends, e.Amount = true, amount
	return s
}

// granted adds a grant to an account, warns the change of the budget to one that only warns.
func (s *story) granted(account string, amount int64) *story {
	s.happened("budgetGranted", "", 0, "")
	e := &s.h.Events[len(s.h.Events)-1]
	e.Of, e.State, e.Amount = "chaos", account, amount
	return s
}

func (s *story) warns() *story {
	s.happened("budgetChanged", "", 0, "")
	e := &s.h.Events[len(s.h.Events)-1]
	e.Of, e.State = "chaos", "warn"
	return s
}

func TestLimitsBite(t *testing.T) {
	t.Parallel()
	assigned := func(s *story, job string, n uint64) *story { return s.happened("jobAssigned", job, n, "") }
	done := func(s *story, job string, n uint64) *story { return s.happened("jobCompleted", job, n, "DONE") }
	bites(t, []plant{
		{"two_reserved", "limits", budgeted(func(s *story) { assigned(assigned(s, "x", 11), "y", 12) })},
		{"the_report_counts", "limits", budgeted(func(s *story) {
			assigned(done(assigned(s, "x", 11), "x", 11).spent(5), "y", 12)
		})},
		{"the_estimate_without_a_report", "limits", budgeted(func(s *story) {
			assigned(done(assigned(s, "x", 11), "x", 11), "y", 12)
		})},
		{"acknowledged_and_lost", "limits", budgeted(func(s *story) {
			assigned(s, "x", 11).happened("leaseAcked", "x", 11, "").happened("leaseExpired", "x", 11, "LEASE_EXPIRED")
			assigned(s, "y", 12)
		})},
		{"a_cancelled_job_continues", "limits", budgeted(func(s *story) {
			assigned(s, "x", 11).happened("jobCancelled", "x", 0, "CANCELLED")
			assigned(s, "y", 12)
		})},
		{"too_small_a_grant", "limits", budgeted(func(s *story) {
			assigned(assigned(s, "x", 11).granted("k", 1), "y", 12)
		})},
		{"granted_to_another", "limits", budgeted(func(s *story) {
			assigned(assigned(s, "x", 11).granted("q", 9), "y", 12)
		})},
		{"before_it_only_warns", "limits", budgeted(func(s *story) {
			assigned(assigned(s, "x", 11), "y", 12).warns()
		})},
	})
	spares(t, []plant{
		{"accounts_apart", "limits", budgeted(func(s *story) { assigned(assigned(s, "x", 11), "z", 13) })},
		{"a_low_report", "limits", budgeted(func(s *story) {
			assigned(done(assigned(s, "x", 11), "x", 11).spent(4), "y", 12)
		})},
		{"never_acknowledged", "limits", budgeted(func(s *story) {
			assigned(s, "x", 11).happened("leaseExpired", "x", 11, "LEASE_EXPIRED")
			assigned(s, "y", 12)
		})},
		{"a_grant", "limits", budgeted(func(s *story) { assigned(assigned(s, "x", 11).granted("k", 2), "y", 12) })},
		{"only_warns", "limits", budgeted(func(s *story) { assigned(assigned(s, "x", 11).warns(), "y", 12) })},
	})
}
