package logs

import (
	"sync"
	"time"
)

const (
	// every is how often one subject may cause a log line.
	every = time.Minute
	// subjectsMax limits the remembered subjects, because strangers choose them.
	subjectsMax = 256
)

// Limiter allows one line per minute and subject, so that a stranger's repeated attempts do not fill the log. The zero
// value is ready to use.
type Limiter struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// Allow reports whether a line about subject may be written now.
func (l *Limiter) Allow(subject string) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.last[subject]; ok && now.Sub(at) < every {
		return false
	}
	if len(l.last) >= subjectsMax {
		for s, at := range l.last {
			if now.Sub(at) >= every {
				delete(l.last, s)
			}
		}
		if len(l.last) >= subjectsMax {
			return false
		}
	}
	if l.last == nil {
		l.last = make(map[string]time.Time)
	}
	l.last[subject] = now
	return true
}
