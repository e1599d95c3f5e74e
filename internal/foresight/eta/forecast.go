package eta

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

const (
	// maxWaits is how many pending jobs a course has: beyond them the pace continues unchanged.
	maxWaits = 3_000
	// maxRows bounds the rows that a course may have to process, including the running jobs.
	maxRows = 60_000
	// work is how many jobs all courses of an answer may process, maxCourses the maximum of courses.
	work       = 6_000
	maxCourses = 9
	// many is the number of courses from which their spread counts.
	many = 7
	// maxOthers bounds the other jobs whose starts an answer notes, to learn from them.
	maxOthers = 8
)

// Hang is something that a job waits for: jobs of a tenant in a queue.
type Hang struct {
	Tenant rota.TenantID
	Queue  rota.QueueName
	// Worker is where jobs run that end before it starts there; "" are pending jobs that start before it, on workers
	// that serve its queue.
	Worker rota.WorkerID
	Jobs   int64
}

// Place identifies jobs: a tenant in a queue.
type Place struct {
	Tenant rota.TenantID
	Queue  rota.QueueName
}

// Noted is the raw forecast of a job.
type Noted struct {
	Job rota.JobID
	Raw
}

// Forecast is when a pending job should start.
type Forecast struct {
	// Never means that in most courses the job does not start; otherwise Raw has the forecast.
	Never bool
	Raw
	Courses int
	// Rows counts the jobs simulated, Cut the pending jobs left out; Beyond means that the job comes after those.
	Rows   int
	Cut    int64
	Beyond bool
	// Guessed counts the assumed run times of a course.
	Guessed map[Place]int64
	// Worker is where it starts in the middle course, Hangs what it waits for there.
	Worker rota.WorkerID
	Hangs  []Hang
	// Others are jobs that start before it.
	Others []Noted
}

// Ask forecasts when a job that is pending in a state starts. It refuses forecasts beyond the bounds of an answer.
func Ask(ctx context.Context, f *fsm.Frozen, of rota.JobID, past *Past) (x *Forecast, err error) {
	defer func() {
		if p := recover(); p != nil { // a sketch is not a whole state: a panic on it must not end the process
			x, err = nil, fmt.Errorf("the state cannot be run ahead of: %v", p)
		}
	}()
	s, err := f.Sketch(of, maxWaits)
	if err != nil {
		return nil, err
	}
	if s.Rows() > maxRows {
		return nil, rota.Refusef(rota.KindExhausted, "eta", "%d jobs run: a forecast goes through %d at most", s.Rows(),
			maxRows)
	}
	x = &Forecast{Rows: s.Rows(), Cut: s.Cut, Beyond: s.Beyond}
	var courses []*course
	for n := min(max(work/(s.Rows()+1), 1), maxCourses); len(courses) < n; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, err := s.Machine()
		if err != nil {
			return nil, err
		}
		c := &course{m: m, past: past, of: of, number: uint64(len(courses)), queue: s.Queue, tenant: s.Tenant}
		if s.Beyond {
			c.wanted = int(s.Kept)
		}
		if err := c.run(); err != nil {
			return nil, refusal(err)
		}
		if s.Beyond {
			c.onward(s.Ahead)
		}
		for of, n := range c.guessed {
			if x.Guessed == nil {
				x.Guessed = make(map[Place]int64)
			}
			x.Guessed[of] += n
		}
		c.m = nil
		courses = append(courses, c)
	}
	x.sum(courses)
	return x, nil
}

func refusal(err error) error {
	if err == errSteps {
		return rota.Refusef(rota.KindExhausted, "eta", "no date is forecast: %v", err)
	}
	return err
}

// seed makes the run time of a job in a course depend only on both: the same question about the same state has the same
// answer, and unrelated jobs do not change an answer.
func seed(of rota.JobID) (h uint64) {
	var b [8]byte
	for i := 0; i < len(of); i++ {
		b[i%8] ^= of[i]
		if i%8 == 7 {
			h = h*0x9E3779B97F4A7C15 ^ binary.LittleEndian.Uint64(b[:])
		}
	}
	return h ^ binary.LittleEndian.Uint64(b[:])
}

// onward extrapolates the start of a job after ahead jobs that were left out, at the latest pace of the jobs before it.
func (c *course) onward(ahead int64) {
	c.at = -1
	n := len(c.paces)
	if n < c.wanted || n == 0 {
		return
	}
	half := n / 2
	took, starts := c.paces[n-1]-c.paces[half], int64(n-1-half)
	if starts == 0 || took == 0 {
		took, starts = c.paces[n-1], int64(n)
	}
	c.at = c.paces[n-1] + took*(ahead+1)/starts
}

// sum combines the courses.
func (x *Forecast) sum(courses []*course) {
	x.Courses = len(courses)
	for of := range x.Guessed {
		x.Guessed[of] /= int64(len(courses))
	}
	slices.SortStableFunc(courses, func(a, b *course) int {
		return cmp.Compare(uint64(a.at), uint64(b.at))
	}) // never last
	middle := courses[(len(courses)-1)/2]
	if x.Never = middle.at < 0; x.Never {
		return
	}
	at := make([]int64, 0, len(courses))
	for _, c := range courses {
		if c.at >= 0 {
			at = append(at, c.at)
		}
	}
	x.Raw = Raw{at[0], middle.at, at[len(at)-1], len(courses) >= many, true}
	x.Worker = middle.worker
	x.hang(middle)
	x.others(courses)
}

// hang counts what the job waits for: on its worker the leases that are open now and end before, and the pending jobs
// that start before it on workers that serve its queue.
func (x *Forecast) hang(c *course) {
	counts := make(map[Hang]int64)
	for _, r := range c.ended {
		if r.worker == c.worker && r.end-c.from <= c.at {
			counts[Hang{Tenant: r.tenant, Queue: r.queue, Worker: r.worker}]++
		}
	}
	for _, b := range c.started {
		if b.job == c.of {
			break
		}
		if c.serving[b.worker] {
			counts[Hang{Tenant: b.tenant, Queue: b.queue}]++
		}
	}
	for h, n := range counts {
		h.Jobs = n
		x.Hangs = append(x.Hangs, h)
	}
	slices.SortFunc(x.Hangs, func(a, b Hang) int {
		return cmp.Or(cmp.Compare(b.Worker, a.Worker), cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Tenant, b.Tenant),
			cmp.Compare(a.Queue, b.Queue))
	})
}

// others records the forecasts of some jobs that start before it in all courses.
func (x *Forecast) others(courses []*course) {
	if len(courses) < many {
		return
	}
	starts := make(map[rota.JobID][]int64)
	for _, c := range courses {
		for _, b := range c.started {
			if b.job != c.of && len(starts[b.job]) < len(courses) {
				starts[b.job] = append(starts[b.job], b.at)
			}
		}
	}
	var all []rota.JobID
	for id, at := range starts {
		if len(at) == len(courses) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	for i := 0; i < len(all); i += max(1, len(all)/maxOthers) {
		at := starts[all[i]]
		slices.Sort(at)
		x.Others = append(x.Others, Noted{all[i], Raw{at[0], at[(len(at)-1)/2], at[len(at)-1], true, false}})
	}
}
