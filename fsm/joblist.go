package fsm

import (
	"math"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/plans"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/filter"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
	"github.com/tidwall/btree"
)

// JobList is a frozen view of all jobs; reading it blocks nothing.
type JobList struct {
	head   state.Header
	now    rota.Moment
	jobs   *tree.Tree[rota.JobID, *state.JobRow]
	leases *tree.Tree[string, *state.LeaseRow]
	tombs  *tree.Tree[rota.JobID, state.Tomb]
	staged *btree.Map[uint64, *state.Record]
	// live are the job rows by number, ends the numbers of ends by those of the lives that ended, order the tombstones
	// by the numbers of ends.
	live  *tree.Numbers[*state.JobRow]
	ends  *tree.Numbers[uint64]
	order *state.TombOrder

	workflows *tree.Tree[rota.WorkflowID, *state.WorkflowRow]
	vertices  *tree.Tree[string, *state.VertexRow]
	// deleted, and loose among staged records, hide what an archive still contains.
	deleted *tree.Tree[string, *state.DeletedRow]
	loose   looseRecords
	// reader holds the rights of the caller.
	reader *access.Reader
}

// For returns the list with the rights of a caller: unreadable jobs are not in it, and no cursor names them.
func (l *JobList) For(rd *access.Reader) *JobList {
	its := *l
	its.reader = rd
	return &its
}

// Jobs freezes the jobs for a list.
func (vw *View) Jobs() *JobList {
	m := vw.m
	return &JobList{head: m.Header, now: m.Header.Now(), jobs: m.JobTable.Freeze(), leases: m.leasing.leases.Freeze(),
		tombs:  m.ended.tombs.Freeze(),
		staged: m.ended.staged.records.Copy(), live: m.Numbers.Copy(), ends: m.ended.tombs.Ends.Copy(),
		order:     m.ended.tombs.Order.Freeze(),
		workflows: m.flows.workflows.Freeze(), vertices: m.flows.vertices.Freeze(), deleted: m.ended.deleted.Freeze(),
		loose: looseRecords{m.ended.staged.loose.Copy()}}
}

// History is the archive as read by a list, at a moment not before that of the list.
type History interface {
	// Next returns the archived job whose id is the least above after.
	Next(after rota.JobID) (Mark, bool)
	// Before returns the archived job with the greatest end number below seq and a readable record.
	Before(seq uint64) (Mark, bool)
	// Ended reads a record; false if it is missing or damaged.
	Ended(seq uint64) (rota.Job, bool)
}

// noHistory is the archive of a node without one.
type noHistory struct{}

func (noHistory) Next(rota.JobID) (Mark, bool)  { return Mark{}, false }
func (noHistory) Before(uint64) (Mark, bool)    { return Mark{}, false }
func (noHistory) Ended(uint64) (rota.Job, bool) { return rota.Job{}, false }

// maxScan is the maximum number of rows that one page looks at, so that a selective filter cannot hold a call forever;
// the page is then short, with a cursor.
const maxScan = 100_000

// The parts of a list as encoded in its cursors. A cursor has the same meaning on every node.
const (
	partLive byte = 1 + iota
	partWaiting
	partEnded
)

// pager fills one page.
type pager struct {
	*JobList
	filter filter.Filter
	asked  *rota.JobFilter
	// cursor is the last place that was looked at.
	cursor filter.Cursor
	// asOf is the clock from which ages count.
	asOf rota.Clock
	// mark is the data of a job that is available without a full read.
	mark   rota.Job
	groups map[string]int
	// read is a buffer for the current job as its reader may see it: allocating one for each job took most of the time
	// of a page that looks at many and shows none.
	read rota.Job
	// plan lists its members by id, and keeps their numbers: last is the last one looked at.
	plan    *PlanWork
	numbers []uint64
	last    rota.JobID
	limit   int
	scanned int
	// stopped reports that the page is full before the list ended.
	stopped bool
	page    rota.JobPage
	// waits caches the waiting nodes of the workflows looked up.
	waits map[rota.WorkflowID]map[rota.JobID]bool
}

// Page returns the jobs that the filter selects, newest first: live ones by number; then workflow nodes that wait for
// their parents, by workflow; then terminal ones by the number of their end, from the state and from the archive. h may
// be nil.
//
// The first page fixes the moment that the list shows. A job that existed then is on one page, even if it ends between
// two pages: as long as its tombstone is kept it stays at its live place. A job that got its number later, by a
// submission or a retry, is on none.
func (l *JobList) Page(f rota.JobFilter, h History) (rota.JobPage, error) {
	its, err := filter.Of(&f)
	if err != nil {
		return rota.JobPage{}, err
	}
	p := &pager{JobList: l, filter: its, asked: &f, limit: f.Limit, page: rota.JobPage{Jobs: []rota.Job{}}}
	switch {
	case f.GroupBy != "" && f.GroupBy != "fingerprint":
		return p.page, rota.Refusef(rota.KindInvalid, "group_by", "group_by: got %.40q; use fingerprint, or omit it",
			f.GroupBy)
	case f.Count || f.GroupBy != "":
		p.page.Counted, p.groups = &rota.JobCount{}, map[string]int{}
	}
	if p.limit <= 0 {
		p.limit = 100
	}
	p.limit = min(p.limit, limits.MaxPage)
	if h == nil {
		h = noHistory{}
	}
	if p.cursor, err = l.cursorOf(&f); err != nil {
		return p.page, err
	}
	p.asOf = p.cursor.Clock
	p.walk(h)
	if p.stopped {
		p.page.NextCursor = p.cursor.Text(l.origin(), &f)
	}
	if c := p.page.Counted; c != nil {
		c.NextCursor, c.Complete = p.page.NextCursor, !p.stopped
	}
	return p.page, nil
}

func (l *JobList) origin() filter.Origin {
	return filter.Origin{Cluster: l.head.Cluster, Incarnation: l.head.Incarnation}
}

// cursorOf returns the start of a page.
func (l *JobList) cursorOf(f *rota.JobFilter) (filter.Cursor, error) {
	if f.Cursor == "" {
		return filter.Cursor{Part: partLive, Clock: l.head.Clock, Jobs: l.head.JobSeq, Ends: l.head.TombSeq,
			At: l.head.JobSeq + 1}, nil
	}
	c, err := filter.ReadCursor(f.Cursor, l.origin(), f)
	switch {
	case err != nil:
		return c, err
	case c.Jobs > l.head.JobSeq || c.Ends > l.head.TombSeq || c.Clock > l.head.Clock:
		return c, rota.Refusef(rota.KindInvalid, "cursor",
			"the cursor is of a later moment than this node has seen: ask a node that is as far, "+
				"or list from the beginning, without a cursor")
	case c.At == 0 || c.Part < partLive || c.Part > partEnded || c.Part == partLive && c.At > c.Jobs+1 ||
		c.Part == partEnded && c.At > c.Ends+1:
		return c, rota.Refusef(rota.KindInvalid, "cursor",
			"cursor %.100q names no place in a list: hand back a page's next_cursor as it is", f.Cursor)
	}
	return c, nil
}

// walk visits the parts of the list until the page is full.
func (p *pager) walk(h History) {
	for ; !p.stopped; p.cursor.Part++ {
		switch p.cursor.Part {
		case partLive:
			if p.filter.May(rota.JobDelayed, rota.JobQueued, rota.JobAssigned, rota.JobRunning) {
				p.living(h)
			}
			if p.stopped {
				return
			}
			p.cursor.At, p.cursor.Sub = math.MaxUint64, 0
		case partWaiting:
			if p.filter.May(rota.JobBlocked) {
				p.waiting(h)
			}
			if p.stopped {
				return
			}
			p.cursor.At, p.cursor.Sub = p.cursor.Ends+1, 0
		default:
			if p.filter.May(rota.JobCompleted, rota.JobDead, rota.JobExpired, rota.JobCancelled) {
				p.over(h)
			}
			return
		}
	}
}

// Members are the next jobs of a plan, with their numbers.
type Members struct {
	Jobs    []rota.Job
	Numbers []uint64
	// To is the last job looked at; End reports that there are none beyond it.
	To  rota.JobID
	End bool
}

// Members returns the next jobs of a plan after its cursor, at most `most`, which the list's reader may read. It looks
// at as many as a page does.
func (l *JobList) Members(w *PlanWork, most int, h History) (Members, error) {
	f, err := ReadPlan(&w.Spec)
	if err != nil {
		return Members{}, err
	}
	if w.Spec.Verb.Workflows() {
		return l.workflowMembers(w, &f, most), nil
	}
	p := &pager{JobList: l, filter: f, asked: &rota.JobFilter{}, plan: w, limit: most, last: w.Cursor, asOf: w.Started}
	if w.Spec.Verb.Ended() {
		if h == nil {
			h = noHistory{}
		}
		p.endedByID(h)
	} else {
		p.liveByID()
	}
	return Members{p.page.Jobs, p.numbers, p.last, !p.stopped}, nil
}

// workflowMembers returns the next workflows of a plan after its cursor, at most `most`, which the list's reader may
// read.
func (l *JobList) workflowMembers(w *PlanWork, f *filter.Filter, most int) Members {
	next := Members{To: w.Cursor, End: true}
	from := rota.WorkflowID(w.Cursor)
	l.workflows.Ascend(from, func(id rota.WorkflowID, r *state.WorkflowRow) bool {
		if id == from || !l.reader.Reads(r.Tenant, r.Queue) {
			return true
		}
		if len(next.Jobs) == most {
			next.End = false
			return false
		}
		next.To = rota.JobID(id)
		if plans.Planned(r, f, w.Started) {
			if job := plans.FlowMark(r); w.Of(r.Seq, job.State) {
				next.Jobs, next.Numbers = append(next.Jobs, job), append(next.Numbers, r.Seq)
			}
		}
		return true
	})
	return next
}

// offer adds a job that the filter selects and the reader may read to the page or to its counts. It calls read if it
// needs more than the mark.
func (p *pager) offer(number uint64, id rota.JobID, q rota.QueueName, t rota.TenantID, typ rota.JobType,
	s rota.JobState, read func() (rota.Job, bool)) {
	p.mark.ID, p.mark.Queue, p.mark.Tenant, p.mark.Type, p.mark.State = id, q, t, typ, s
	if !p.filter.Early(&p.mark) || p.plan != nil && !p.plan.Of(number, s) {
		return
	}
	c := p.page.Counted
	if c != nil && p.asked.GroupBy == "" && !p.filter.NeedsMore() {
		c.Count++
		return
	}
	its, ok := read()
	if !ok {
		return
	}
	p.read = its
	if job := &p.read; !p.reader.Job(job) || !p.filter.Late(job, p.asOf) {
		return
	}
	if p.plan != nil {
		p.page.Jobs, p.numbers = append(p.page.Jobs, its), append(p.numbers, number)
		return
	}
	job := p.read
	if c == nil {
		p.page.Jobs = append(p.page.Jobs, job)
		return
	}
	if c.Count++; p.asked.GroupBy == "" {
		return
	}
	at, known := p.groups[string(job.Fingerprint)]
	if !known {
		at = len(c.Groups)
		p.groups[string(job.Fingerprint)] = at
		c.Groups = append(c.Groups, rota.JobGroup{Fingerprint: job.Fingerprint, Job: job.ID, Type: job.Type,
			Reason: job.Reason, Error: state.Tail(job.Error, limits.MaxNoteBytes)})
	}
	c.Groups[at].Count++
}

// full counts a row that is looked at, and reports whether the limit is reached.
func (p *pager) full() bool {
	p.scanned++
	p.stopped = len(p.page.Jobs) >= p.limit || p.scanned > maxScan || p.page.Counted != nil &&
		len(p.page.Counted.Groups) >= limits.MaxGroups
	return p.stopped
}

// living lists the jobs that were live when the list began, in order of number: those that are still live, and those
// that have ended since.
func (p *pager) living(h History) {
	c := &p.cursor
	since := p.endedSince(c.At)
	for {
		number, j, ok := p.live.Below(c.At)
		for since.number >= c.At {
			since = p.endedSince(since.number)
		}
		switch t := since.row; {
		case since.number > number:
			if p.reader.Reads(t.Tenant, t.Queue) {
				if p.full() {
					return
				}
				if !p.isWaiting(t.ID) { // it is in the next part
					p.offerTomb(&t, h)
				}
			}
			c.At = since.number
			continue
		case !ok:
			return
		}
		if p.reader.Reads(j.Spec.Tenant, j.Spec.Queue) {
			if p.full() {
				return
			}
			p.offerLive(j)
		}
		c.At = number
	}
}

// late is a job that has ended since the list began, by its number while live; 0 for none.
type late struct {
	number uint64
	row    state.TombRow
}

// endedSince returns the job with the greatest number below the given one that has ended since the list began.
func (p *pager) endedSince(number uint64) late {
	if p.head.TombSeq == p.cursor.Ends {
		return late{}
	}
	for {
		below, end, ok := p.ends.Below(number)
		if !ok {
			return late{}
		}
		if number = below; end <= p.cursor.Ends {
			continue
		}
		at, _ := p.order.At(end)
		if kept, ok := p.tombs.Get(at.ID); ok {
			return late{below, kept.Row()}
		}
	}
}

func (p *pager) offerLive(j *state.JobRow) {
	p.offer(j.Seq, j.Spec.ID, j.Spec.Queue, j.Spec.Tenant, j.Spec.Type, j.State, func() (rota.Job, bool) {
		lease, _ := p.leases.Get(string(j.Lease[:]))
		return liveJob(j, lease, p.now), true
	})
}

func (p *pager) offerTomb(t *state.TombRow, h History) {
	p.offer(t.Seq, t.ID, t.Queue, t.Tenant, t.Typ, t.State, func() (rota.Job, bool) { return p.tombJob(t, h), true })
}

// over lists the jobs that had ended when the list began.
func (p *pager) over(h History) {
	c := &p.cursor
	tombs := sourceBelow(c.At, func(at uint64) (uint64, state.TombEntry, bool) { return p.order.Below(at) })
	staged := sourceBelow(c.At, p.stagedBelow)
	archived := sourceBelow(c.At, func(at uint64) (uint64, Mark, bool) {
		mark, ok := h.Before(at)
		return mark.Seq, mark, ok
	})
	for {
		t, s, a := tombs.below(c.At), staged.below(c.At), archived.below(c.At)
		seq := max(t, s, a)
		if seq == 0 {
			return
		}
		if t == seq {
			kept, ok := p.tombs.Get(tombs.what.ID)
			row := kept.Row()
			if ok && p.reader.Reads(row.Tenant, row.Queue) {
				if p.full() {
					return
				}
				if !p.isWaiting(row.ID) {
					p.offerTomb(&row, h)
				}
			}
			c.At = seq
			continue
		}
		mark, read := archived.what, func() (rota.Job, bool) { return h.Ended(seq) }
		if s == seq {
			mark, _ = staged.what.Mark()
			read = func() (rota.Job, bool) { return staged.what.Ended().Job, true }
		}
		if p.reader.Reads(mark.Tenant, mark.Queue) {
			if p.full() {
				return
			}
			if p.latest(&mark) {
				p.offer(seq, mark.ID, mark.Queue, mark.Tenant, mark.Type, mark.State, read)
			}
		}
		c.At = seq
	}
}

// latest reports whether an end without a tombstone is the job's last known one, and the job does not run again.
func (p *pager) latest(mark *Mark) bool {
	if peer.IsLog(mark.ID) {
		return false
	}
	_, live := p.jobs.Get(mark.ID)
	_, later := p.tombs.Get(mark.ID)
	return !live && !later && !p.hides(mark) && !p.isWaiting(mark.ID)
}

// stagedBelow returns the staged record with the greatest number below the given one.
func (l *JobList) stagedBelow(at uint64) (seq uint64, s StagedRecord, ok bool) {
	if at == 0 {
		return 0, s, false
	}
	l.staged.Descend(at-1, func(number uint64, r *state.Record) bool {
		seq, s, ok = number, StagedRecord{number, r.Spec.ID, r}, true
		return false
	})
	return seq, s, ok
}

// source is one of the merged sources of a list, at its present position.
type source[T any] struct {
	find func(at uint64) (uint64, T, bool)
	at   uint64
	what T
}

// sourceBelow starts a source below a number.
func sourceBelow[T any](at uint64, find func(uint64) (uint64, T, bool)) source[T] {
	return source[T]{find: find, at: at}
}

// below moves to the greatest number below the given one, 0 if there is none.
func (s *source[T]) below(at uint64) uint64 {
	if s.at >= at {
		number, what, ok := s.find(at)
		if s.at, s.what = number, what; !ok {
			s.at = 0
		}
	}
	return s.at
}

// liveByID lists the live jobs by id, for plans.
func (p *pager) liveByID() {
	from := p.last
	p.jobs.Ascend(from, func(id rota.JobID, j *state.JobRow) bool {
		if id == from || !p.reader.Reads(j.Spec.Tenant, j.Spec.Queue) {
			return true
		}
		if p.full() {
			return false
		}
		p.last = id
		p.offerLive(j)
		return true
	})
}

// endedByID merges tombstones and archive by id, for plans. The state takes precedence over an archived earlier life: a
// revived job is live, and a node that a retry runs again waits.
func (p *pager) endedByID(h History) {
	from := p.last
	mark, archived := h.Next(from)
	old := func() bool { // offers the next archived job
		if !p.reader.Reads(mark.Tenant, mark.Queue) {
			mark, archived = h.Next(mark.ID)
			return true
		}
		if p.full() {
			return false
		}
		p.last = mark.ID
		if _, live := p.jobs.Get(mark.ID); !live && !p.hides(&mark) && !p.isWaiting(mark.ID) {
			p.offer(mark.Seq, mark.ID, mark.Queue, mark.Tenant, mark.Type, mark.State,
				func() (rota.Job, bool) { return h.Ended(mark.Seq) })
		}
		mark, archived = h.Next(mark.ID)
		return true
	}
	state.ScanTombs(p.tombs, from, func(id rota.JobID, t *state.TombRow) bool {
		if id == from {
			return true
		}
		for archived && mark.ID < id {
			if !old() {
				return false
			}
		}
		reads := p.reader.Reads(t.Tenant, t.Queue)
		if reads && p.full() {
			return false
		}
		if reads {
			p.last = id
		}
		if archived && mark.ID == id {
			mark, archived = h.Next(id)
		}
		if reads && !p.isWaiting(id) {
			p.offerTomb(t, h)
		}
		return true
	})
	for archived && !p.stopped && old() {
	}
}

// hides reports whether an archived job, or a later end of it, was deleted.
func (l *JobList) hides(mark *Mark) bool {
	if l.deleted.Len() == 0 {
		return false
	}
	gone := func(seq uint64) bool { return isDeleted(l.deleted, seq) }
	return gone(mark.Seq) || mark.Seq < l.loose.newest(mark.ID, gone)
}

// tombJob returns a terminal job from its tombstone, and from its record if that is staged or archived.
func (p *pager) tombJob(t *state.TombRow, h History) rota.Job {
	if r, ok := p.staged.Get(t.Seq); ok {
		return deadJob(t, r)
	}
	if job, ok := h.Ended(t.Seq); ok {
		return WithTombstone(job, deadJob(t, nil))
	}
	return deadJob(t, nil)
}
