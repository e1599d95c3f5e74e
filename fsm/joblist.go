package fsm

import (
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/tidwall/btree"
)

// JobList is a frozen view of all jobs; reading it holds nothing up.
type JobList struct {
	now    rota.Moment
	jobs   *tree.Tree[rota.JobID, *jobRow]
	leases *tree.Tree[string, *leaseRow]
	tombs  *tree.Tree[rota.JobID, tomb]
	staged *btree.Map[uint64, *record]

	workflows *tree.Tree[rota.WorkflowID, *workflowRow]
	vertices  *tree.Tree[string, *vertexRow]
	// deleted, and loose of those that are staged, hide what an archive still holds.
	deleted *tree.Tree[string, *deletedRow]
	loose   looseRecords
	// reader is who reads it.
	reader *access.Reader
}

// For returns the list as somebody may read it: what may not be read is no part of it, nor does
// a cursor name it.
func (l *JobList) For(rd *access.Reader) *JobList {
	its := *l
	its.reader = rd
	return &its
}

// Jobs freezes the jobs for a list.
func (vw *View) Jobs() *JobList {
	return &JobList{vw.m.head.now(), vw.m.jobs.freeze(), vw.m.leasing.leases.freeze(), vw.m.ended.tombs.freeze(), vw.m.ended.staged.records.Copy(), vw.m.flows.workflows.freeze(),
		vw.m.flows.vertices.freeze(), vw.m.ended.deleted.freeze(), looseRecords{vw.m.ended.staged.loose.Copy()}, nil}
}

// History is the archive as a list reads it, of one moment not before the
// list's own.
type History interface {
	// Next returns the archived job whose id is the least above after.
	Next(after rota.JobID) (Mark, bool)
	// Ended reads a record; false where it is not there or damaged.
	Ended(seq uint64) (rota.Job, bool)
}

// noHistory is the archive of a node that has none.
type noHistory struct{}

func (noHistory) Next(rota.JobID) (Mark, bool)  { return Mark{}, false }
func (noHistory) Ended(uint64) (rota.Job, bool) { return rota.Job{}, false }

// maxScan bounds the rows that one page looks at, so that a filter that matches
// little cannot hold a call for ever; the page then is short, with a cursor.
const maxScan = 100_000

// The parts that a list has: a cursor is one of them, a slash, and the id of the
// last job looked at, or the place of the last node that waits. It means the same on
// every node.
const (
	partLive    = "live"
	partWaiting = "blocked"
	partDone    = "done"
)

// pager fills one page.
type pager struct {
	*JobList
	filter  rota.JobFilter
	limit   int
	scanned int
	last    rota.JobID
	page    rota.JobPage
	// waits are the nodes of waitsOf that wait, once asked for.
	waits   map[rota.JobID]bool
	waitsOf rota.WorkflowID
}

// Page returns the jobs that the filter selects: live ones by id; then nodes of
// workflows that wait for their parents, by workflow and number; then terminal ones
// by id, from the state and from the archive, each once. h may be nil.
func (l *JobList) Page(f rota.JobFilter, h History) (rota.JobPage, error) {
	p := &pager{JobList: l, filter: f, limit: f.Limit, page: rota.JobPage{Jobs: []rota.Job{}}}
	if p.limit <= 0 {
		p.limit = 100
	}
	p.limit = min(p.limit, limits.MaxPage)
	if h == nil {
		h = noHistory{}
	}
	part, after, found := strings.Cut(f.Cursor, "/")
	if f.Cursor == "" {
		part, found = partLive, true
	}
	if part == partWaiting && after != "" {
		_, _, found = waitingFrom(after)
	}
	if !found || part != partLive && part != partWaiting && part != partDone {
		return p.page, rota.Refusef(rota.KindInvalid, "cursor", "cursor %q is not one that a page gave", f.Cursor)
	}
	p.last = rota.JobID(after)
	if part == partLive {
		if !f.State.Terminal() {
			p.live()
		}
		part = p.pass(partWaiting)
	}
	if part == partWaiting {
		p.waiting()
		part = p.pass(partDone)
	}
	if part == partDone && (f.State == rota.JobNone || f.State.Terminal()) {
		p.ended(h)
	}
	for i := range p.page.Jobs {
		l.reader.Job(&p.page.Jobs[i])
	}
	return p.page, nil
}

// pass goes on with the next part, from its beginning, unless the page is full.
func (p *pager) pass(to string) string {
	if p.page.NextCursor != "" {
		return ""
	}
	p.last = ""
	return to
}

// full counts a row looked at, and sets the cursor when no more may be.
func (p *pager) full(part string) bool {
	if p.scanned++; len(p.page.Jobs) < p.limit && p.scanned <= maxScan {
		return false
	}
	p.page.NextCursor = part + "/" + string(p.last)
	return true
}

func (p *pager) live() {
	from := p.last
	p.jobs.Ascend(from, func(id rota.JobID, j *jobRow) bool {
		if id == from {
			return true
		}
		if !p.reader.Reads(j.spec.Tenant, j.spec.Queue) {
			return true
		}
		if p.full(partLive) {
			return false
		}
		p.last = id
		if selects(p.filter, j.spec.Queue, j.spec.Tenant, j.spec.Type, j.state) {
			lease, _ := p.leases.Get(string(j.lease[:]))
			p.page.Jobs = append(p.page.Jobs, liveJob(j, lease, p.now))
		}
		return true
	})
}

// ended merges tombstones and archive by id. What the state knows counts: a job
// that was revived is live, and a node that a retry runs again waits, whatever an
// archive says of its earlier life.
func (p *pager) ended(h History) {
	from := p.last
	mark, archived := h.Next(from)
	stop := false
	old := func() bool { // takes the archived one that is next
		if !p.reader.Reads(mark.Tenant, mark.Queue) {
			mark, archived = h.Next(mark.ID)
			return true
		}
		if p.full(partDone) {
			stop = true
			return false
		}
		p.last = mark.ID
		if _, live := p.jobs.Get(mark.ID); !live && !p.hides(&mark) && !p.isWaiting(mark.ID) && selects(p.filter, mark.Queue, mark.Tenant, mark.Type, mark.State) {
			if job, ok := h.Ended(mark.Seq); ok {
				p.page.Jobs = append(p.page.Jobs, job)
			}
		}
		mark, archived = h.Next(mark.ID)
		return true
	}
	scanTombs(p.tombs, from, func(id rota.JobID, t *tombRow) bool {
		if id == from {
			return true
		}
		for archived && mark.ID < id {
			if !old() {
				return false
			}
		}
		reads := p.reader.Reads(t.tenant, t.queue)
		if reads && p.full(partDone) {
			stop = true
			return false
		}
		if reads {
			p.last = id
		}
		if archived && mark.ID == id {
			mark, archived = h.Next(id)
		}
		if reads && selects(p.filter, t.queue, t.tenant, t.typ, t.state) && !p.isWaiting(id) {
			p.page.Jobs = append(p.page.Jobs, p.tombJob(t, h))
		}
		return true
	})
	for archived && !stop && old() {
	}
}

// hides reports whether an archived job was deleted, or a later end of it.
func (l *JobList) hides(mark *Mark) bool {
	if l.deleted.Len() == 0 {
		return false
	}
	gone := func(seq uint64) bool { return isDeleted(l.deleted, seq) }
	return gone(mark.Seq) || mark.Seq < l.loose.newest(mark.ID, gone)
}

// tombJob tells of a terminal job by its tombstone, and by its record if that
// is staged or archived.
func (p *pager) tombJob(t *tombRow, h History) rota.Job {
	if r, ok := p.staged.Get(t.seq); ok {
		return deadJob(t, r)
	}
	if job, ok := h.Ended(t.seq); ok {
		return WithTombstone(job, deadJob(t, nil))
	}
	return deadJob(t, nil)
}

func selects(f rota.JobFilter, q rota.QueueName, t rota.TenantID, typ rota.JobType, s rota.JobState) bool {
	return (f.Queue == "" || f.Queue == q) && (f.Tenant == "" || f.Tenant == t) && (f.Type == "" || f.Type == typ) &&
		(f.State == rota.JobNone || f.State == s)
}
