package cli

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// CostSum is what the ended jobs of a group have spent of one cost.
type CostSum struct {
	// Group has the values that the group was made by, in that order.
	Group []string  `json:"group,omitempty"`
	Name  string    `json:"name"`
	Spent rota.Cost `json:"spent"`
	Jobs  int64     `json:"jobs"`
}

// costGroups are the fields that costs can be grouped by; label.KEY is another.
var costGroups = []string{"tenant", "type", "queue", "key", "state", "day"}

// CostQuery selects the ended jobs whose costs are summed, and their groups.
type CostQuery struct {
	By []string
	// From is when the first of them ended.
	From rota.Date
	// Where are terms that they match.
	Where string
	// Budget, if not nil, selects the jobs that spend its unit from its account Of, or from any if Of is "".
	Budget *rota.Budget
	Of     string
	// Most is the maximum number of jobs to read, 0 for all.
	Most int
}

// Check rejects unknown fields.
func (q *CostQuery) Check() error {
	for _, field := range q.By {
		if !slices.Contains(costGroups, field) && !(strings.HasPrefix(field, "label.") && len(field) > len("label.")) {
			return rota.NotOneOf("by", field, append(slices.Clone(costGroups), "label.KEY")...)
		}
	}
	return nil
}

// Columns returns the columns of its sums.
func (q *CostQuery) Columns() (columns []Column[CostSum]) {
	for i, field := range q.By {
		columns = append(columns, Column[CostSum]{Head: strings.ToUpper(field),
			Cell: func(s CostSum) any { return s.Group[i] }})
	}
	return append(columns, Column[CostSum]{Head: "COST", Cell: func(s CostSum) any { return s.Name }},
		Column[CostSum]{Head: "SPENT", Cell: func(s CostSum) any { return s.Spent }},
		Column[CostSum]{Head: "JOBS", Cell: func(s CostSum) any { return s.Jobs }})
}

// SumCosts reads ended jobs, the newest first, until one ended too early, and sums their costs by group and name.
func (a *App) SumCosts(ctx context.Context, c *client.Client, q *CostQuery) ([]CostSum, error) {
	filter := rota.JobFilter{Where: strings.Join(append([]string{"state=COMPLETED,DEAD,CANCELLED,EXPIRED"},
		q.terms()...), " ")}
	sums, read := map[string]*CostSum{}, 0
	for j, err := range c.Jobs(ctx, filter, a.Fresh()...) {
		if err != nil {
			return nil, err
		}
		if j.Finished.Date < q.From {
			break
		}
		if read++; q.Most > 0 && read > q.Most {
			a.Talk("only the %d jobs that ended last are summed, from %s on: raise --jobs for more", q.Most, j.Finished.Date)
			break
		}
		q.add(sums, &j)
	}
	list := make([]CostSum, 0, len(sums))
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		list = append(list, *sums[key])
	}
	slices.SortStableFunc(list, func(x, y CostSum) int { return cmp.Compare(x.Name, y.Name) })
	return list, nil
}

// terms returns the terms that select the jobs, as far as they can: add looks at each job's account.
func (q *CostQuery) terms() (list []string) {
	if q.Where != "" {
		list = append(list, q.Where)
	}
	term := func(name, value string) {
		if value != "" && !strings.ContainsAny(value, "\"\\,* ") {
			list = append(list, name+"="+value)
		}
	}
	if b := q.Budget; b != nil {
		term("tenant", string(b.Tenant))
		term("queue", string(b.Queue))
		if strings.Contains(b.Key, ":") {
			term("key", b.Key)
		}
		switch b.Each {
		case rota.EachTenant:
			term("tenant", q.Of)
		case rota.EachKey:
			term("key", q.Of)
		case rota.EachWorkflow:
			term("workflow", q.Of)
		case rota.EachJob:
			term("id", q.Of)
		}
	}
	return list
}

// add adds the costs of a job.
func (q *CostQuery) add(sums map[string]*CostSum, j *rota.Job) {
	if b := q.Budget; b != nil {
		if of, ok := b.Account(j.ID, &j.JobSpec); !ok || q.Of != "" && of != q.Of {
			return
		}
	}
	group := make([]string, len(q.By))
	for i, field := range q.By {
		group[i] = q.groupOf(j, field)
	}
	for name, amount := range j.Spent {
		if q.Budget != nil && name != q.Budget.Unit {
			continue
		}
		key := strings.Join(append(group, name), "\x00")
		if sums[key] == nil {
			sums[key] = &CostSum{Group: group, Name: name}
		}
		sums[key].Spent += min(rota.Cost(amount), math.MaxInt64-sums[key].Spent)
		sums[key].Jobs++
	}
}

func (q *CostQuery) groupOf(j *rota.Job, field string) string {
	switch field {
	case "tenant":
		return string(j.Tenant)
	case "type":
		return string(j.Type)
	case "queue":
		return string(j.Queue)
	case "key":
		return strings.Join(q.keysOf(j), ",")
	case "state":
		return j.State.String()
	case "day":
		return j.Finished.Date.Time().In(q.zone()).Format(time.DateOnly)
	}
	return j.Labels[strings.TrimPrefix(field, "label.")]
}

// keysOf returns a job's keys: under a budget of keys only those.
func (q *CostQuery) keysOf(j *rota.Job) []string {
	if q.Budget == nil || q.Budget.Key == "" {
		return j.Keys
	}
	name := q.Budget.KeyName() + ":"
	return slices.DeleteFunc(slices.Clone(j.Keys), func(k string) bool { return !strings.HasPrefix(k, name) })
}

// zone returns the time zone of its days: that of the budget's periods, or UTC.
func (q *CostQuery) zone() *time.Location {
	if q.Budget != nil {
		if zone, err := time.LoadLocation(q.Budget.TZ); err == nil {
			return zone
		}
	}
	return time.UTC
}
