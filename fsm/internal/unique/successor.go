package unique

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/jsonparts"
)

// mergeRules is the first rules version under which a merge reports how the payload was merged, and which `after` and
// `collect` need (SPEC §18.2).
const mergeRules = 2

// A job submitted with `after` or `collect` while another one holds its key, and cannot take its payload, is the
// holder's successor: BLOCKED until the key is free, which it then gets (SPEC §18.3). A key has at most one successor.

// takes returns how a submission's payload is merged into a job; j is nil if the job has ended.
func (un *Keys) takes(j *state.JobRow, spec *rota.JobSpec) rota.Merge {
	collects := spec.Unique.OnConflict == rota.UniqueCollect
	switch {
	case spec.Unique.OnConflict == rota.UniqueExisting:
		return rota.MergeNone
	case j == nil:
		return rota.MergeHolderEnded
	case j.State.Leased():
		return rota.MergeHolderLeased
	case j.Spec.Queue != spec.Queue:
		return rota.MergeOtherQueue
	case j.Spec.Type != spec.Type:
		return rota.MergeOtherType
	case collects && !j.Spec.Unique.Collects():
		return rota.MergeNoList
	case !j.Spec.Unique.Collects():
		return rota.MergeTaken
	case !jsonparts.Valid(spec.Payload):
		return rota.MergeNotJSON
	}
	longer := len("[]") + len(spec.Payload)
	if collects {
		longer = len(j.Spec.Payload()) + len(",") + len(spec.Payload)
	}
	if int64(longer) > state.PayloadMax(un.s.QueueTable.Get(spec.Queue)) {
		return rota.MergeListFull
	}
	return rota.MergeTaken
}

// succeeds reports whether a submission becomes the successor of the job that holds its key.
func (un *Keys) succeeds(r *state.UniqueRow, spec *rota.JobSpec) bool {
	return spec.Unique.Succeeds() && r.Next == "" && un.takes(un.s.JobTable.Get(r.Job), spec) != rota.MergeTaken
}

// target returns the job that a submission is merged into, and how its payload is merged; a refusal if the payload may
// not be lost and no job takes it.
func (un *Keys) target(r *state.UniqueRow, spec *rota.JobSpec) (rota.JobID, rota.Merge, *fsmpb.Outcome) {
	into := r.Job
	if spec.Unique.Succeeds() && r.Next != "" {
		into = r.Next
	}
	merge := un.takes(un.s.JobTable.Get(into), spec)
	if spec.Unique.Collects() && merge != rota.MergeTaken {
		return into, merge, entry.Refused(refuse.Exhausted("unique",
			"the job that waits behind the holder of this key cannot collect one more "+
				"payload: %s; submit again once it runs", merge))
	}
	return into, merge, nil
}

// Await makes a new job the successor of the job that holds its key.
func (un *Keys) Await(j *state.JobRow) {
	r := un.Rows.Edit(string(j.Past.Unique[:]))
	r.Next = j.Spec.ID
	un.ports.Move(j, rota.JobBlocked)
	un.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobBlocked, Job: j.Spec.ID, Queue: j.Spec.Queue,
		Tenant: j.Spec.Tenant,
		Payload: state.Payload(struct {
			After rota.JobID `json:"after"`
		}{r.Job})})
}

// succeed gives a free key to the successor, and reports whether there is one. The successor starts at the end of the
// entry: the job before it may still be ending.
func (un *Keys) succeed(r *state.UniqueRow) bool {
	if r.Next == "" || un.s.JobTable.Get(r.Next) == nil {
		return false
	}
	r = un.Rows.Change(r.Key, r)
	r.Job, r.Next, r.Until = r.Next, "", 0
	un.ready = append(un.ready, r.Job)
	return true
}

// Settle starts the successors whose turn came in this entry.
func (un *Keys) Settle() {
	for _, id := range un.ready {
		if j := un.s.JobTable.Get(id); j != nil && j.State == rota.JobBlocked {
			un.ports.Start(un.s.JobTable.Edit(id))
		}
	}
	un.ready = un.ready[:0]
}

// listOf returns a payload as the first element of a list.
func listOf(payload []byte) []byte {
	list := make([]byte, 0, len("[]")+len(payload))
	return append(append(append(list, '['), payload...), ']')
}

// collected returns a list with one more payload.
func collected(list, payload []byte) []byte {
	longer := make([]byte, 0, len(list)+len(",")+len(payload))
	longer = append(append(longer, list[:len(list)-1]...), ',')
	return append(append(longer, payload...), ']')
}

// Collecting returns a submission whose payload is the first of a list; the limit on payloads applies to the list.
func Collecting(spec *rota.JobSpec, most int64) (*rota.JobSpec, error) {
	made := *spec
	made.Payload = listOf(spec.Payload)
	return &made, made.CheckOwn(most)
}

// given returns the payload of a job after another one is merged into it.
func given(j *state.JobRow, spec *rota.JobSpec) []byte {
	switch {
	case !j.Spec.Unique.Collects():
		return spec.Payload
	case spec.Unique.Collects():
		return collected(j.Spec.Payload(), spec.Payload)
	default:
		return listOf(spec.Payload)
	}
}

// checkSuccessors checks that BLOCKED jobs without a workflow are the successors recorded for keys.
func (un *Keys) checkSuccessors(fault func(format string, args ...any)) {
	next := make(map[rota.JobID]bool)
	un.Rows.Scan(func(key string, r *state.UniqueRow) bool {
		if r.Next == "" {
			return true
		}
		next[r.Next] = true
		if j := un.s.JobTable.Get(r.Next); j == nil || j.State != rota.JobBlocked ||
			string(j.History().Unique[:]) != key || r.Next == r.Job {
			fault("I4: job %s is to follow %s, and does not wait for that", r.Next, r.Job)
		}
		return true
	})
	un.s.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		if j.Workflow == "" && (j.State == rota.JobBlocked) != next[id] {
			fault("I4: job %s is %s, it follows another one: %v", id, j.State, next[id])
		}
		return true
	})
	if len(un.ready) > 0 {
		fault("I4: %d successors were not started", len(un.ready))
	}
}
