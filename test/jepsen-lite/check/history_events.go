package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/rotasched/rota"
)

// SeenEvent is an event as a reader received it.
type SeenEvent struct {
	ID     rota.EventID `json:"id"`
	Kind   string       `json:"k"`
	Parent rota.EventID `json:"p,omitzero"`
	Clock  int64        `json:"c"`
	Job    string       `json:"j,omitempty"`
	// Flow is the workflow that the event is about, itself or one of its nodes; State is how it finished.
	Flow   string `json:"f,omitempty"`
	State  string `json:"fs,omitempty"`
	Lease  string `json:"l,omitempty"`
	Worker string `json:"w,omitempty"`
	Reason string `json:"r,omitempty"`
	Status string `json:"s,omitempty"`
	// Schedule is the schedule that the event is about, Date the date, or the last of Count dates.
	Schedule string    `json:"sn,omitempty"`
	Date     rota.Date `json:"d,omitempty"`
	Count    uint64    `json:"n,omitempty"`
	// Of is another object that the event names: a batch, a plan, a signal, the submission that was merged, the queue
	// that a job moved to. Refused is how many jobs refused a plan.
	Of      string `json:"of,omitempty"`
	Refused int64  `json:"rf,omitempty"`
	// Amount was granted, or spent by an attempt that reported (Spends), in millionths; State names the account of a
	// grant, and what a budget does at its limit.
	Amount int64 `json:"am,omitempty"`
	Spends bool  `json:"sp,omitempty"`
	// Prior and Post begin the hashes of the state before and after the entry.
	Prior string `json:"a,omitempty"`
	Post  string `json:"z,omitempty"`
	// Sum is a checksum of all fields, these and the others.
	Sum uint64 `json:"h"`
	// Wrong describes how the event contradicts itself.
	Wrong string `json:"x,omitempty"`
}

// leaseKept and hashKept are how much of a lease's id and of a state's hash is kept with each event: enough to tell
// those of a run apart.
const leaseKept, hashKept = 16, 8

func leaseKeptOf(lease string) string { return lease[:min(len(lease), leaseKept)] }

// EventSeen records an event. An event that breaks a rule by itself is marked.
func EventSeen(e *rota.ServedEvent) SeenEvent {
	s := SeenEvent{ID: e.ID, Kind: e.Kind.String(), Parent: e.Parent, Clock: int64(e.Clock), Job: string(e.Job),
		Worker: string(e.Worker), Prior: e.Prior.String()[:hashKept], Post: e.Post.String()[:hashKept]}
	if !e.Lease.IsZero() {
		s.Lease = leaseKeptOf(e.Lease.String())
	}
	if e.Reason != rota.ReasonNone {
		s.Reason = e.Reason.String()
	}
	if e.Status != rota.WorkerNone {
		s.Status = e.Status.String()
	}
	if s.Flow = e.Run; e.Kind == rota.EventWorkflowFinished {
		var payload struct{ State string }
		if err := json.Unmarshal([]byte(e.Payload), &payload); err != nil {
			s.Wrong = fmt.Sprintf("payload %q: %v", Short(e.Payload), err)
		}
		s.State = payload.State
	}
	switch e.Kind {
	case rota.EventScheduleFired, rota.EventScheduleSkipped, rota.EventScheduleMissed:
		s.dated(e.Payload)
	default:
		s.readPayload(e)
	}
	if e.Post == (rota.Digest{}) { // no state is empty after an entry, and these readers may read everything
		s.Wrong = "it comes without the hash of the state after it"
	}
	text, err := json.Marshal(e)
	if err != nil {
		s.Wrong = "it has no JSON: " + err.Error()
	}
	sum := sha256.Sum256(text)
	s.Sum = binary.BigEndian.Uint64(sum[:])
	if hash := sha256.Sum256([]byte(e.Payload)); len(e.PayloadHash) > 0 && !bytes.Equal(hash[:], e.PayloadHash) {
		s.Wrong = fmt.Sprintf("payload_hash %s is not of payload %q", e.PayloadHash, Short(e.Payload))
	}
	return s
}

// Stream is the list of events that one reader received, compared with the events that the history keeps
// (History.Events): stretches of those, in the order received.
type Stream struct {
	Name string `json:"name"`
	// Whole means that it is one node's answer to a reading of all events; other readers followed through the whole
	// run.
	Whole bool  `json:"whole,omitempty"`
	Runs  []Run `json:"runs"`
	// Odd are events that History.Events lacks or has with other contents; the first few.
	Odd []SeenEvent `json:"odd,omitempty"`
	// Breaks is how often it had to continue at another node.
	Breaks int    `json:"breaks,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Run is a stretch of History.Events.
type Run struct {
	From  int `json:"from"`
	Count int `json:"count"`
}

// told counts the events of a stream that are in History.Events.
func (s *Stream) told() (n int) {
	for _, r := range s.Runs {
		n += r.Count
	}
	return n
}

// ToldEvent is the part of an event that is kept for comparing streams: a long run has many events, and each of its
// readers received them all.
type ToldEvent struct {
	ID        rota.EventID
	sum       uint64
	kind, job string
}

// BriefOf returns the fields by which two nodes' versions of an event are compared.
func BriefOf(e *SeenEvent) ToldEvent { return ToldEvent{e.ID, e.Sum, e.Kind, e.Job} }

// Briefs returns BriefOf of each event.
func Briefs(events []SeenEvent) []ToldEvent {
	told := make([]ToldEvent, len(events))
	for i := range events {
		told[i] = BriefOf(&events[i])
	}
	return told
}

// Against records the events that a reader received as stretches of the kept events.
func Against(name string, whole bool, kept []SeenEvent, told []ToldEvent) Stream {
	s := Stream{Name: name, Whole: whole}
	at := make(map[rota.EventID]int, len(kept))
	for i := range kept {
		at[kept[i].ID] = i
	}
	for i := range told {
		e := &told[i]
		k, known := at[e.ID]
		if !known || kept[k].Sum != e.sum {
			if len(s.Odd) < maxOdd {
				s.Odd = append(s.Odd, SeenEvent{ID: e.ID, Kind: e.kind, Job: e.job, Sum: e.sum})
			}
			continue
		}
		if n := len(s.Runs); n > 0 && s.Runs[n-1].From+s.Runs[n-1].Count == k {
			s.Runs[n-1].Count++
		} else if n < maxRuns {
			s.Runs = append(s.Runs, Run{k, 1})
		}
	}
	return s
}

// NodeShows is how one node shows the ended jobs, compared with the first node.
type NodeShows struct {
	Node    string `json:"node"`
	Listed  int    `json:"listed"`
	Sampled int    `json:"sampled"`
	// Differs describes jobs that it shows differently; the first few.
	Differs []string `json:"differs,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// AuditOf is the result of `rota operator audit` on a stopped node's data.
type AuditOf struct {
	Node   string            `json:"node"`
	Report *rota.AuditReport `json:"report,omitempty"`
	Error  string            `json:"error,omitempty"`
}
