package whatif

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

const (
	// maxAdded bounds the workers that are added.
	maxAdded = 10_000
	// cancelsAtOnce is how many jobs an entry cancels of those that a tenant has when the window begins.
	cancelsAtOnce = 1_000
)

// Change is the difference from the log; an empty Change is the log's own policy.
type Change struct {
	// Queues are the settings of queues, by name.
	Queues []QueueChange
	// Budgets are other limits of budgets.
	Budgets []BudgetLimit
	// Workers are the added workers.
	Workers []AddedWorkers
	// Without is a tenant whose work is left out.
	Without rota.TenantID
}

// QueueChange are settings of a queue.
type QueueChange struct {
	Queue  rota.QueueName
	Preset string
	Set    []rota.Setting
}

// BudgetLimit is another limit of a budget.
type BudgetLimit struct {
	Name  rota.BudgetName
	Limit rota.Cost
}

// ParseBudget adds NAME=LIMIT.
func (c *Change) ParseBudget(text string) error {
	name, amount, ok := strings.Cut(text, "=")
	b := BudgetLimit{Name: rota.BudgetName(name)}
	if !ok {
		return rota.Refusef(rota.KindInvalid, "set-budget", "set-budget: got %.80q; use NAME=LIMIT", text)
	}
	if err := rota.CheckID("set-budget", b.Name); err != nil {
		return err
	}
	if b.Limit.UnmarshalText([]byte(amount)) != nil {
		return rota.Malformed("limit", amount, "use a decimal such as 500 or 0.25, with at most six digits after the point")
	}
	c.Budgets = append(c.Budgets, b)
	return nil
}

// AddedWorkers are workers of one kind: of a spec, or like one of the log's.
type AddedWorkers struct {
	Count int
	Like  rota.WorkerID
	Spec  rota.WorkerSpec
}

// ParseSet adds QUEUE.key=value.
func (c *Change) ParseSet(text string) error {
	left, value, ok := strings.Cut(text, "=")
	at := strings.LastIndex(left, ".")
	if i := strings.Index(left, ".expected."); i > 0 {
		at = i
	}
	if !ok || at <= 0 || at == len(left)-1 {
		return rota.Refusef(rota.KindInvalid, "set", "set: got %q; use QUEUE.key=value", text)
	}
	queue, key := rota.QueueName(left[:at]), left[at+1:]
	if err := rota.CheckID("queue", queue); err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(c.Queues, queue, func(q QueueChange, name rota.QueueName) int {
		return strings.Compare(string(q.Queue), string(name))
	})
	if !found {
		c.Queues = slices.Insert(c.Queues, i, QueueChange{Queue: queue})
	}
	q := &c.Queues[i]
	if key == "preset" {
		q.Preset = value
		_, err := rota.PresetPolicy(value)
		return err
	}
	s := rota.Setting{Key: key, Value: value}.Canonical()
	q.Set = append(q.Set, s)
	p := rota.StandardPolicy()
	return cmp.Or(s.CheckUnit(), p.Try(s))
}

// ParseWorkers adds +4xSPEC, where SPEC is a worker's id, or slots=4,cpu_milli=8000,….
func (c *Change) ParseWorkers(text string) error {
	count, spec, ok := strings.Cut(strings.TrimPrefix(text, "+"), "x")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 1 || spec == "" || !strings.HasPrefix(text, "+") {
		return rota.Refusef(rota.KindInvalid, "workers",
			"workers: got %q; use +4xSPEC, where SPEC is a worker's id or slots=4,cpu_milli=8000,…", text)
	}
	for _, w := range c.Workers {
		n += w.Count
	}
	if n > maxAdded {
		return rota.Refusef(rota.KindInvalid, "workers", "%d workers are added: at most %d are", n, maxAdded)
	}
	n, _ = strconv.Atoi(count)
	w := AddedWorkers{Count: n}
	if strings.Contains(spec, "=") {
		w.Spec, err = parseSpec(spec)
	} else {
		w.Like = rota.WorkerID(spec)
		err = rota.CheckID("worker", w.Like)
	}
	c.Workers = append(c.Workers, w)
	return err
}

// parseSpec parses a worker's resources.
func parseSpec(text string) (spec rota.WorkerSpec, err error) {
	spec = rota.WorkerSpec{ID: "what-if", Slots: 1, Queues: []rota.QueueName{rota.DefaultQueue}}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		number, numberErr := strconv.ParseInt(value, 10, 64)
		switch key {
		case "slots":
			spec.Slots, err = int32(min(number, rota.MaxSlots+1)), numberErr
		case "cpu_milli":
			spec.CPUMilli, err = number, numberErr
		case "memory_bytes":
			spec.MemoryBytes, err = number, numberErr
		case "io_bytes_per_s":
			spec.IOBytesPerS, err = number, numberErr
		case "region":
			spec.Region = value
		case "zone":
			spec.Zone = value
		case "queues":
			spec.Queues = nil
			for q := range strings.SplitSeq(value, ":") {
				spec.Queues = append(spec.Queues, rota.QueueName(q))
			}
		case "capabilities":
			spec.Capabilities = strings.Split(value, ":")
		default:
			err = rota.Refusef(rota.KindInvalid, "workers",
				"%q is refused: slots, cpu_milli, memory_bytes, io_bytes_per_s, region, zone, queues and capabilities (a:b) are known",
				part)
		}
		if err != nil {
			return spec, rota.Refusef(rota.KindInvalid, "workers", "%q is refused: %v", part, err)
		}
	}
	err = spec.CheckShape()
	return spec, err
}

// setQueue returns the operation that sets a queue.
func (q *QueueChange) setQueue() *fsmpb.Op {
	set := &fsmpb.SetQueue{Name: string(q.Queue), Preset: q.Preset}
	for _, s := range q.Set {
		set.Set = append(set.Set, &fsmpb.Label{Key: s.Key, Value: s.Value})
	}
	return &fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: set}}
}

// check rejects a change that is impossible on the state in which the window begins.
func (c *Change) check(m *fsm.Machine) error {
	for i := range c.Queues {
		q := &c.Queues[i]
		if m.Head().ClusterID == "" { // before the first entry: as on an empty cluster
			p, err := q.begin()
			for _, s := range q.Set {
				if err == nil {
					err = p.Try(s)
				}
			}
			if err == nil {
				err = p.Check()
			}
			if err != nil {
				return err
			}
			continue
		}
		if _, err := fsm.PreviewQueue(&m.View, q.setQueue()); err != nil {
			return err
		}
	}
	return nil
}

// begin returns the policy that the settings change if the queue does not exist yet.
func (q *QueueChange) begin() (rota.QueuePolicy, error) {
	if q.Preset == "" {
		return rota.StandardPolicy(), nil
	}
	return rota.PresetPolicy(q.Preset)
}

// registrations returns the operations that add workers, with ids different from those of the log.
func (c *Change) registrations(like map[rota.WorkerID]rota.WorkerSpec) (ops []*fsmpb.Op, err error) {
	for _, w := range c.Workers {
		spec := w.Spec
		if w.Like != "" {
			known, ok := like[w.Like]
			if !ok {
				return nil, rota.Refusef(rota.KindNotFound, "workers",
					"no worker %q is in the log: give an id of one that is, or slots=4,cpu_milli=8000,…", w.Like)
			}
			spec = known
		}
		for range w.Count {
			for n := len(ops) + 1; ; n++ {
				spec.ID = rota.WorkerID(fmt.Sprint("what-if-", n))
				if _, taken := like[spec.ID]; !taken {
					break
				}
			}
			like[spec.ID] = spec
			secret := sha256.Sum256([]byte(spec.ID))
			ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_Register{Register: &fsmpb.Register{SecretHash: secret[:],
				Spec: entry.WorkerOp(&spec)}}})
		}
	}
	return ops, nil
}

// evictions returns the operations that cancel the work of a tenant in a state.
func (c *Change) evictions(m *fsm.Machine) (ops []*fsmpb.Op, err error) {
	if c.Without == "" {
		return nil, nil
	}
	for _, s := range fsm.SchedulesOf(&m.View) {
		if s.Job.Tenant == c.Without {
			ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_DeleteSchedule{DeleteSchedule: &fsmpb.DeleteSchedule{Name: string(
				s.Name)}}})
		}
	}
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := m.Workflows().Page(rota.WorkflowFilter{Tenant: c.Without, Limit: pageSize, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		for i := range page.Workflows {
			ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_CancelWorkflow{CancelWorkflow: &fsmpb.CancelWorkflow{Id: string(
				page.Workflows[i].ID)}}})
		}
		cursor = page.NextCursor
	}
	err = eachLive(m, rota.JobFilter{Tenant: c.Without}, func(j *rota.Job) {
		ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: string(j.ID)}}})
	})
	return ops, err
}

// pageSize is how many rows a page of a listing has.
const pageSize = 1_000

// eachLive calls f for each job that has not ended.
func eachLive(m *fsm.Machine, filter rota.JobFilter, f func(*rota.Job)) error {
	list := m.Jobs()
	filter.Limit = pageSize
	for {
		page, err := list.Page(filter, nil)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if page.Jobs[i].State.Terminal() { // they come last
				return nil
			}
			f(&page.Jobs[i])
		}
		if filter.Cursor = page.NextCursor; filter.Cursor == "" {
			return nil
		}
	}
}

// left is the part of the log that is left out, by tenant.
type left struct {
	tenant    string
	workflows map[string]bool
	schedules map[string]bool
}

// drops reports whether an operation is the tenant's.
func (l *left) drops(op *fsmpb.Op) bool {
	if l.tenant == "" {
		return false
	}
	switch o := op.GetOp().(type) {
	case *fsmpb.Op_Submit:
		return l.theirs(o.Submit.GetSpec().GetTenant())
	case *fsmpb.Op_OpenWorkflow:
		if l.theirs(o.OpenWorkflow.GetTenant()) {
			l.workflows[o.OpenWorkflow.GetId()] = true
		}
		return l.workflows[o.OpenWorkflow.GetId()]
	case *fsmpb.Op_AddNodes:
		return l.workflows[o.AddNodes.GetWorkflow()]
	case *fsmpb.Op_CommitWorkflow:
		return l.workflows[o.CommitWorkflow.GetId()]
	case *fsmpb.Op_RetryWorkflow:
		return l.workflows[o.RetryWorkflow.GetId()]
	case *fsmpb.Op_SetSchedule:
		l.schedules[o.SetSchedule.GetName()] = l.theirs(o.SetSchedule.GetJob().GetTenant())
		return l.schedules[o.SetSchedule.GetName()]
	case *fsmpb.Op_Fire:
		return l.schedules[o.Fire.GetName()]
	case *fsmpb.Op_TriggerSchedule:
		return l.schedules[o.TriggerSchedule.GetName()]
	case *fsmpb.Op_Retry:
		return l.theirs(o.Retry.GetSpec().GetTenant())
	}
	return false
}

func (l *left) theirs(tenant string) bool {
	if tenant == "" {
		tenant = string(rota.DefaultTenant)
	}
	return tenant == l.tenant
}
