package check

import (
	"fmt"
)

// BudgetFacts describe a budget with an account for each value of its key, and the jobs that were submitted with one,
// acknowledged or not.
type BudgetFacts struct {
	Name string `json:"name"`
	// Unit is the cost that it limits, Limit how much of it, in millionths.
	Unit  string `json:"unit"`
	Limit int64  `json:"limit"`
	// Accounts has the account of each job, Estimates its estimate in millionths.
	Accounts  map[string]string `json:"accounts"`
	Estimates map[string]int64  `json:"estimates"`
}

// spender is an open attempt: its job, its estimate, and whether its worker acknowledged it.
type spender struct {
	job   string
	acked bool
}

// checkLimits adds up, from the events, what the attempts of each account have spent and what the open ones reserve: no
// attempt may start beyond the limit and the grants before it (SPEC §30.5). Once the budget only warns, as at the end of
// a run, nothing is compared.
func checkLimits(v *view) (found []Anomaly) {
	starts, grants, most := 0, 0, int64(0)
	defer func() {
		v.figures["limits_starts"], v.figures["limits_grants"], v.figures["limits_most"] = starts, grants, most
	}()
	for i := range v.Budgets {
		b := &v.Budgets[i]
		sums, granted := map[string]int64{}, map[string]int64{}
		open, lease := map[string]spender{}, map[string]string{}
		used := func(account string) (sum int64) {
			sum = sums[account]
			for _, s := range open {
				if b.Accounts[s.job] == account {
					sum += b.Estimates[s.job]
				}
			}
			return sum
		}
	scan:
		for k := range v.Events {
			e := &v.Events[k]
			account, ours := b.Accounts[e.Job]
			switch {
			case e.Kind == "budgetChanged" && e.Of == b.Name && e.State == "warn":
				break scan
			case e.Kind == "budgetGranted" && e.Of == b.Name:
				granted[e.State] += e.Amount
				grants++
			case !ours:
			case e.Kind == "jobAssigned":
				open[e.Lease], lease[e.Job] = spender{job: e.Job}, e.Lease
				starts++
				if sum := used(account); sum > b.Limit+granted[account] {
					found = append(found, Anomaly{IDs: []string{e.Job, account}, Text: fmt.Sprintf(
						"job %s started at event %s with %d of %d millionths of account %s", e.Job, e.ID, sum,
						b.Limit+granted[account], account)})
				} else {
					most = max(most, sum)
				}
			case e.Kind == "leaseAcked":
				if s, is := open[e.Lease]; is {
					s.acked = true
					open[e.Lease] = s
				}
			case e.endsAttempt():
				at := e.Lease
				if at == "" {
					at = lease[e.Job]
				}
				s, is := open[at]
				if !is {
					continue
				}
				delete(open, at)
				switch {
				case e.Spends:
					sums[account] += e.Amount
				case s.acked || e.Kind == "jobCompleted" || e.failed():
					sums[account] += b.Estimates[s.job]
				}
			}
		}
	}
	return found
}

// endsAttempt reports whether an event ends an attempt. A job that is cancelled by a call may leave its lease open.
func (s *SeenEvent) endsAttempt() bool {
	switch s.Kind {
	case "leaseCancelled", "leaseExpired", "leaseDeclined", "jobCompleted", "jobDead":
		return true
	case "jobCancelled":
		return s.Reason == "CANCELLED_BY_HANDLER"
	}
	return false
}

// failed reports whether the event shows that the handler of an attempt ran, without an acknowledgement.
func (s *SeenEvent) failed() bool {
	switch s.Reason {
	case "PROVIDER_FAIL", "TIMED_OUT", "SNOOZED", "CANCELLED_BY_HANDLER":
		return s.Kind == "leaseCancelled" || s.Kind == "jobDead" || s.Kind == "jobCancelled"
	}
	return s.Kind == "jobDead"
}
