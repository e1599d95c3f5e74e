package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/jsonparts"
)

// mergeRules are the first rules under which a merger says what became of its payload, and those that `after` and
// `collect` need (SPEC §18.2).
const mergeRules = 2

// A job that is submitted with `after` or `collect` while another one holds its key, and cannot take its payload, is
// the holder's successor: BLOCKED until the key is free, which it then takes (SPEC §18.3). A key has one at most.

// takes returns what becomes of a payload that is merged into a job, nil where that has ended.
func (un *uniques) takes(j *jobRow, spec *rota.JobSpec) rota.Merge {
	collects := spec.Unique.OnConflict == rota.UniqueCollect
	switch {
	case spec.Unique.OnConflict == rota.UniqueExisting:
		return rota.MergeNone
	case j == nil:
		return rota.MergeHolderEnded
	case j.state.Leased():
		return rota.MergeHolderLeased
	case j.spec.Queue != spec.Queue:
		return rota.MergeOtherQueue
	case j.spec.Type != spec.Type:
		return rota.MergeOtherType
	case collects && !j.spec.Unique.Collects():
		return rota.MergeNoList
	case !j.spec.Unique.Collects():
		return rota.MergeTaken
	case !jsonparts.Valid(spec.Payload):
		return rota.MergeNotJSON
	}
	longer := len("[]") + len(spec.Payload)
	if collects {
		longer = len(j.spec.Payload()) + len(",") + len(spec.Payload)
	}
	if int64(longer) > payloadMax(un.s.queues.get(spec.Queue)) {
		return rota.MergeListFull
	}
	return rota.MergeTaken
}

// succeeds reports whether a submission becomes the successor of the job that holds its key.
func (un *uniques) succeeds(r *uniqueRow, spec *rota.JobSpec) bool {
	return spec.Unique.Succeeds() && r.next == "" && un.takes(un.s.jobs.get(r.job), spec) != rota.MergeTaken
}

// target returns the job that a submission is merged into, with what becomes of its payload; a refusal where it may not
// be lost and no job takes it.
func (un *uniques) target(r *uniqueRow, spec *rota.JobSpec) (rota.JobID, rota.Merge, *fsmpb.Outcome) {
	into := r.job
	if spec.Unique.Succeeds() && r.next != "" {
		into = r.next
	}
	merge := un.takes(un.s.jobs.get(into), spec)
	if spec.Unique.Collects() && merge != rota.MergeTaken {
		return into, merge, entry.Refused(exhausted("unique", "the job that waits behind the holder of this key cannot collect one more "+
			"payload: %s; submit again once it runs", merge))
	}
	return into, merge, nil
}

// await makes a new job the successor of the one that holds its key.
func (un *uniques) await(j *jobRow) {
	r := un.rows.edit(string(j.past.unique[:]))
	r.next = j.spec.ID
	un.placement.move(j, rota.JobBlocked)
	un.s.journal.emitFor(j, &rota.Event{Kind: rota.EventJobBlocked, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant,
		Payload: payload(struct {
			After rota.JobID `json:"after"`
		}{r.job})})
}

// succeed hands a key that is free to the successor, and reports whether there is one. The successor starts at the end
// of the entry: the job before it may be in the middle of its own end.
func (un *uniques) succeed(r *uniqueRow) bool {
	if r.next == "" || un.s.jobs.get(r.next) == nil {
		return false
	}
	r = un.rows.change(r.key, r)
	r.job, r.next, r.until = r.next, "", 0
	un.ready = append(un.ready, r.job)
	return true
}

// settle starts the successors whose turn came in this entry.
func (un *uniques) settle() {
	for _, id := range un.ready {
		if j := un.s.jobs.get(id); j != nil && j.state == rota.JobBlocked {
			un.life.start(un.s.jobs.edit(id))
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

// collecting returns a submission whose payload is the first of a list; the bound on payloads is on the list.
func collecting(spec *rota.JobSpec, most int64) (*rota.JobSpec, error) {
	made := *spec
	made.Payload = listOf(spec.Payload)
	return &made, made.CheckOwn(most)
}

// given returns the payload of a job after another one is merged into it.
func given(j *jobRow, spec *rota.JobSpec) []byte {
	switch {
	case !j.spec.Unique.Collects():
		return spec.Payload
	case spec.Unique.Collects():
		return collected(j.spec.Payload(), spec.Payload)
	default:
		return listOf(spec.Payload)
	}
}

// successors checks that BLOCKED jobs without a workflow are those that keys say to be next.
func (c *checker) successors() {
	next := make(map[rota.JobID]bool)
	c.m.uniques.rows.scan(func(key string, r *uniqueRow) bool {
		if r.next == "" {
			return true
		}
		next[r.next] = true
		if j := c.m.jobs.get(r.next); j == nil || j.state != rota.JobBlocked || string(j.history().unique[:]) != key || r.next == r.job {
			c.fault("I4: job %s is to follow %s, and does not wait for that", r.next, r.job)
		}
		return true
	})
	c.m.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		if j.workflow == "" && (j.state == rota.JobBlocked) != next[id] {
			c.fault("I4: job %s is %s, it follows another one: %v", id, j.state, next[id])
		}
		return true
	})
	if len(c.m.uniques.ready) > 0 {
		c.fault("I4: %d successors were not started", len(c.m.uniques.ready))
	}
}
