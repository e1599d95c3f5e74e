package meter

import (
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// Recent counts ended jobs of each queue, by the minute of the event's date. So a replay after a restart fills the
// minutes in which the jobs ended, and not the current one.
type Recent struct {
	mu     sync.Mutex
	queues map[rota.QueueName]*recentQueue
}

// recentQueue holds a queue's last quarter of an hour, a slot per minute, and its waits of a day.
type recentQueue struct {
	slots [peer.RecentMinutes]recentSlot
	// failed is the newest job that failed.
	failedAt rota.Date
	job      rota.JobID
	error    string
	waits    waitHistogram
}

type recentSlot struct {
	minute            int64
	completed, failed int64
	first             rota.Date
}

const recentStep = int64(time.Minute / time.Millisecond)

// NewRecent returns an empty counter.
func NewRecent() *Recent { return &Recent{queues: make(map[rota.QueueName]*recentQueue)} }

// Count counts the ended jobs in the events of an entry.
func (r *Recent) Count(events []rota.Event) {
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case rota.EventJobCompleted, rota.EventJobDead, rota.EventJobExpired:
			r.note(e)
		}
	}
}

func (r *Recent) note(e *rota.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	minute := int64(e.Date) / recentStep
	q := r.of(e.Queue, minute)
	if q == nil {
		return
	}
	slot := &q.slots[minute%peer.RecentMinutes]
	if slot.minute > minute {
		return // its minute is over
	}
	if slot.minute < minute {
		*slot = recentSlot{minute: minute}
	}
	if e.Kind == rota.EventJobCompleted {
		slot.completed++
		return
	}
	if slot.failed++; slot.first == 0 {
		slot.first = e.Date
	}
	if e.Date >= q.failedAt { // the event's bytes are reused: copy the text
		q.failedAt, q.job = e.Date, rota.JobID(strings.Clone(string(e.Job)))
		q.error = strings.Clone(cutText(e.Text))
	}
}

// cutText bounds the error that is stored for each queue.
func cutText(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), limits.RecentError)], "")
}

// of returns a queue's slots, creating them if there is room; nil if there is none. A queue without recently ended jobs
// is dropped to make room. mu is held.
func (r *Recent) of(name rota.QueueName, minute int64) *recentQueue {
	if q := r.queues[name]; q != nil {
		return q
	}
	if len(r.queues) >= limits.RecentQueues {
		for other, q := range r.queues {
			if !q.since(minute - peer.RecentMinutes) {
				delete(r.queues, other)
			}
		}
		if len(r.queues) >= limits.RecentQueues {
			return nil
		}
	}
	q := &recentQueue{}
	r.queues[rota.QueueName(strings.Clone(string(name)))] = q
	return q
}

// since reports whether any job ended after a minute.
func (q *recentQueue) since(minute int64) bool {
	for i := range q.slots {
		if q.slots[i].minute > minute {
			return true
		}
	}
	return false
}

// sample records how long the oldest job of each queue has waited.
func (r *Recent) sample(queues []rota.Queue, now rota.Date) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range queues {
		if q := r.of(queues[i].Name, int64(now)/recentStep); q != nil {
			q.waits.add(queues[i].OldestWait.Milliseconds(), int64(now)/recentStep)
		}
	}
}

// Ended returns the recently ended jobs of each queue, as of a date.
func (r *Recent) Ended(date rota.Date) map[rota.QueueName]peer.QueueRecent {
	now := int64(date) / recentStep
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[rota.QueueName]peer.QueueRecent, len(r.queues))
	for name, q := range r.queues {
		found := peer.QueueRecent{UsualWaitMs: q.waits.percentile95()}
		for i := range q.slots {
			s := &q.slots[i]
			place := s.minute - (now - peer.RecentMinutes + 1)
			if place < 0 || place >= peer.RecentMinutes {
				continue
			}
			found.Completed[place], found.Failed[place] = s.completed, s.failed
			if s.first != 0 && (found.First == 0 || s.first < found.First) {
				found.First = s.first
			}
		}
		if found.First != 0 {
			found.Job, found.Error = q.job, q.error
		}
		all[name] = found
	}
	return all
}

// waitHistogram counts samples of waits by power of two, for two half days: the older half is dropped at noon and midnight.
type waitHistogram struct {
	half      int64
	now, past [waitClasses]uint16
}

// waitClasses covers waits up to 2^38 ms, eight years.
const waitClasses = 40

const halfDay = 12 * 60

func (h *waitHistogram) add(ms, minute int64) {
	switch half := minute / halfDay; {
	case half == h.half+1:
		h.half, h.past, h.now = half, h.now, [waitClasses]uint16{}
	case half != h.half:
		*h = waitHistogram{half: half}
	}
	h.now[min(bits.Len64(uint64(max(ms, 0))), waitClasses-1)]++
}

// percentile95 returns the upper end of the class of the 95th percentile, in milliseconds; 0 without a sample.
func (h *waitHistogram) percentile95() int64 {
	total := 0
	for i := range h.now {
		total += int(h.now[i]) + int(h.past[i])
	}
	left := total - (total*95+99)/100
	for i := waitClasses - 1; i > 0; i-- {
		if left -= int(h.now[i]) + int(h.past[i]); left < 0 {
			return 1 << i
		}
	}
	return 0
}
