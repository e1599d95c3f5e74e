package transport

import (
	"sync"
	"time"
)

const (
	// seldomEvery is the least time between two lines about one thing.
	seldomEvery = time.Minute
	// seldomKeys bounds how many things are remembered: their names come from
	// strangers.
	seldomKeys = 1_000
)

// seldom lets one line a minute through for each key, so that a caller who
// tries again and again fills no disk. The zero value is ready.
type seldom struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (s *seldom) allows(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if at, ok := s.last[key]; ok && now.Sub(at) < seldomEvery {
		return false
	}
	if s.last == nil {
		s.last = make(map[string]time.Time)
	}
	if len(s.last) >= seldomKeys {
		for k, at := range s.last {
			if now.Sub(at) >= seldomEvery {
				delete(s.last, k)
			}
		}
		if len(s.last) >= seldomKeys {
			return false
		}
	}
	s.last[key] = now
	return true
}
