package snapshot

import "github.com/rotasched/rota"

// DropAt is Drop for the chunk that begins with an entry.
func (s *EventStore) DropAt(first rota.Index) error {
	h, ok := s.find(func(h chunkHead) bool { return h.first >= first })
	if !ok || h.first != first {
		return nil
	}
	return s.Drop(h.before)
}
