package check

import (
	"fmt"
	"slices"

	"github.com/rotasched/rota"
)

// WebhookFacts describe a webhook that selects events of a schedule's runs, as it was set and as it is at the end.
type WebhookFacts struct {
	Name     string   `json:"name"`
	Schedule string   `json:"schedule"`
	Kinds    []string `json:"kinds"`
	// SetAt is when it was set, in the run's time.
	SetAt int64 `json:"set_at"`
	// Known means that it was read at the end, before the jobs were.
	Known  bool         `json:"known"`
	State  string       `json:"state"`
	Cursor rota.EventID `json:"cursor"`
	Gaps   uint64       `json:"gaps"`
}

// deliverMs is the time of the cluster clock within which an event becomes a delivery once there is no fault.
const deliverMs = 10_000

// readDeliveries makes the deliveries of webhooks count as jobs that may have been submitted at any time since their
// webhook was set.
func (v *view) readDeliveries() {
	set := make(map[string]int64)
	for i := range v.Webhooks {
		set[v.Webhooks[i].Name] = v.Webhooks[i].SetAt
	}
	seen := make(map[string]bool)
	note := func(id string) {
		name, _, ok := rota.SplitDeliveryID(rota.JobID(id))
		if at, ours := set[string(name)]; ok && ours && !seen[id] {
			seen[id] = true
			v.jobs[id] = append(v.jobs[id], &Op{Process: "webhook", Func: OpSubmit, Job: id, Invoke: at, Return: never,
				Outcome: Unknown})
		}
	}
	for i := range v.Ops {
		note(v.Ops[i].Job)
	}
	for i := range v.Final {
		note(v.Final[i].ID)
	}
}

// checkWebhooks requires each event that a webhook selects to be delivered once, in the order of the events, regardless
// of the leader, and each delivery to be completed.
func checkWebhooks(v *view) (found []Anomaly) {
	deliveries := 0
	for i := range v.Webhooks {
		d := deliveredOf(v, &v.Webhooks[i])
		deliveries += len(d.made)
		d.judge(v)
		for _, text := range d.faults {
			found = append(found, Anomaly{IDs: []string{d.f.Name}, Text: "webhook " + d.f.Name + ": " + text})
		}
	}
	if len(v.Webhooks) > 0 {
		v.figures["webhook_deliveries"] = deliveries
	}
	return found
}

// delivered is the state of a webhook according to the events.
type delivered struct {
	f *WebhookFacts
	// wanted are the events that it selects, by place; made are the deliveries, by the event of each.
	wanted map[rota.EventID]int64
	order  []rota.EventID
	made   map[rota.EventID]bool
	// again are the deliveries that are queued once more for another attempt: after a wait, or after the end of a lease
	// that did not count, such as that of a worker that was suspended.
	again  map[rota.EventID]bool
	latest int64
	faults []string
}

func (d *delivered) say(format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

func deliveredOf(v *view, f *WebhookFacts) *delivered {
	d := &delivered{f: f, wanted: make(map[rota.EventID]int64), made: make(map[rota.EventID]bool),
		again: make(map[rota.EventID]bool)}
	var last rota.EventID
	for i := range v.Events {
		e := &v.Events[i]
		d.latest = max(d.latest, e.Clock)
		run, ok := rota.SplitRunID(rota.JobID(e.Job))
		if ok && string(run) == f.Schedule && slices.Contains(f.Kinds, e.Kind) {
			d.wanted[e.ID] = e.Clock
			d.order = append(d.order, e.ID)
		}
		name, of, ok := rota.SplitDeliveryID(rota.JobID(e.Job))
		if !ok || string(name) != f.Name {
			continue
		}
		switch e.Kind {
		case rota.EventJobRetryScheduled.String(), rota.EventLeaseCancelled.String(), rota.EventLeaseExpired.String(),
			rota.EventLeaseDeclined.String():
			d.again[of] = true
			continue
		case rota.EventJobCompleted.String(), rota.EventJobCancelled.String(), rota.EventJobExpired.String(),
			rota.EventJobDead.String():
			d.again[of] = false
			continue
		case rota.EventJobEnqueued.String():
		default:
			continue
		}
		switch _, wanted := d.wanted[of]; {
		case d.again[of]:
			d.again[of] = false
			continue
		case d.made[of]:
			d.say("event %s is delivered a second time, by event %s", of, e.ID)
		case !wanted:
			d.say("event %s delivers %s, which is not selected", e.ID, of)
		case of.Compare(last) < 0:
			d.say("event %s delivers %s behind %s", e.ID, of, last)
		}
		d.made[of], last = true, of
	}
	return d
}

// judge requires that no event is left out that is decided, or that was long ago, and that all deliveries exist.
func (d *delivered) judge(v *view) {
	for _, id := range d.order {
		switch at := d.wanted[id]; {
		case d.made[id] || !d.f.Known:
		case id.Compare(d.f.Cursor) <= 0:
			d.say("event %s was never delivered, and the cursor is beyond it, at %s", id, d.f.Cursor)
		case at < d.latest-deliverMs:
			d.say("event %s is not delivered %d ms after it", id, d.latest-at)
		}
	}
	if d.f.Known && (d.f.State != "ACTIVE" || d.f.Gaps > 0) {
		d.say("it is %s, with %d gaps", d.f.State, d.f.Gaps)
	}
	there := 0
	for i := range v.Final {
		j := &v.Final[i]
		name, of, ok := rota.SplitDeliveryID(rota.JobID(j.ID))
		if !ok || string(name) != d.f.Name {
			continue
		}
		if there++; !d.made[of] {
			d.say("job %s exists, but no event reports that it was created", j.ID)
		}
		if v.Liveness.Listed && j.State != rota.JobCompleted.String() {
			d.say("delivery %s is %s at the end", j.ID, j.State)
		}
	}
	if v.Liveness.Listed && there < len(d.made) {
		d.say("%d deliveries were made, %d of them are there", len(d.made), there)
	}
}
