package cluster

import (
	"sync"
	"time"
)

const (
	// lineEvery is how often one subject may cause a log line.
	lineEvery = time.Minute
	// lineSubjectsMax bounds the subjects remembered: strangers choose them.
	lineSubjectsMax = 256
)

// lineLimiter says yes to one line a minute and subject, so that a stranger
// who knocks all day does not write the log.
type lineLimiter struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// allow says whether a line about subject may be written now.
func (l *lineLimiter) allow(subject string) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.last[subject]; ok && now.Sub(at) < lineEvery {
		return false
	}
	if len(l.last) >= lineSubjectsMax {
		for s, at := range l.last {
			if now.Sub(at) >= lineEvery {
				delete(l.last, s)
			}
		}
		if len(l.last) >= lineSubjectsMax {
			return false
		}
	}
	if l.last == nil {
		l.last = make(map[string]time.Time)
	}
	l.last[subject] = now
	return true
}
