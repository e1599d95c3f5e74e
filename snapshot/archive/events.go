package archive

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// eventsBucket holds chunks of events: the index of the first entry, 8 bytes big-endian, to a chunk (chunk.go).
var eventsBucket = []byte("events.1")

const (
	// chunkBytes is how many bytes of events a chunk is filled up to: some ten thousand events, which one read decodes.
	chunkBytes = 1 << 20
	// mergeBelow is the size up to which entries are added to the newest chunk. An idle cluster flushes a few events at
	// a time: a chunk for each flush would make hundreds of thousands.
	mergeBelow = 64 << 10
)

// Events stores the newest events of a node in its archive file (SPEC §12.3): whole entries in chunks, each found by
// index and by how many events precede it. It is safe for concurrent use.
type Events struct {
	db       *bbolt.DB
	retained uint64
	// write allows one Put at a time; mu guards chunks, which readers share.
	write  sync.Mutex
	mu     sync.RWMutex
	chunks []chunkHead
}

// OpenEvents uses the part of an archive file that holds events and keeps the newest retained events; up to one chunk
// more may stay. A chunk whose head does not verify is left out: the other nodes have it.
func OpenEvents(db *bbolt.DB, retained uint64) (*Events, error) {
	s := &Events{db: db, retained: retained}
	err := db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(eventsBucket)
		if err != nil {
			return err
		}
		var broken [][]byte
		err = b.ForEach(func(k, v []byte) error {
			h, err := parseChunkHead(v)
			if err != nil || len(k) != 8 || binary.BigEndian.Uint64(k) != uint64(h.first) ||
				len(s.chunks) > 0 && s.chunks[len(s.chunks)-1].end() > h.before {
				broken = append(broken, append([]byte(nil), k...))
				return nil
			}
			s.chunks = append(s.chunks, h)
			return nil
		})
		for _, k := range broken {
			if err == nil {
				err = b.Delete(k)
			}
		}
		return err
	})
	if err != nil {
		return nil, carried(opOpen, err, "the events in the archive cannot be read")
	}
	return s, nil
}

// Put stores entries, in their order, and deletes the oldest beyond the retained number. Existing entries are skipped,
// so a replayed log changes nothing; entries older than others fill gaps.
func (s *Events) Put(entries []EventEntry) error {
	s.write.Lock()
	defer s.write.Unlock()
	chunks := append([]chunkHead(nil), s.chunks...)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(eventsBucket)
		for len(entries) > 0 {
			run := freshRun(chunks, &entries)
			if len(run) == 0 {
				continue
			}
			var err error
			if chunks, err = putRun(b, chunks, run); err != nil {
				return err
			}
		}
		for len(chunks) > 1 && chunks[0].end()+s.retained <= chunks[len(chunks)-1].end() {
			if err := b.Delete(chunks[0].key()); err != nil {
				return err
			}
			chunks = chunks[1:]
		}
		return nil
	})
	if err != nil {
		return carried("put events", err, "events cannot be written")
	}
	s.mu.Lock()
	s.chunks = chunks
	s.mu.Unlock()
	return nil
}

// freshRun removes entries from the front: first those that exist already, then as many as make one chunk, are
// consecutive and precede the next chunk.
func freshRun(chunks []chunkHead, entries *[]EventEntry) []EventEntry {
	list := *entries
	at := sort.Search(len(chunks), func(i int) bool { return chunks[i].end() > list[0].Before })
	if at < len(chunks) && chunks[at].before <= list[0].Before {
		*entries = list[1:]
		return nil
	}
	n, bytes := 0, 0
	for n < len(list) && (n == 0 || bytes < chunkBytes && list[n].Before == list[n-1].End()) &&
		(at == len(chunks) || list[n].End() <= chunks[at].before) {
		bytes += list[n].size()
		n++
	}
	if n == 0 { // it overlaps half a chunk: no node makes such entries
		*entries = list[1:]
		return nil
	}
	*entries = list[n:]
	return list[:n]
}

// putRun writes a run of entries, merged with the previous chunk if that is small.
func putRun(b *bbolt.Bucket, chunks []chunkHead, run []EventEntry) ([]chunkHead, error) {
	at := sort.Search(len(chunks), func(i int) bool { return chunks[i].before > run[0].Before })
	if at > 0 && chunks[at-1].end() == run[0].Before && chunks[at-1].raw < mergeBelow {
		// A damaged chunk is not merged with; it stays as it is.
		if before, err := DecodeEvents(b.Get(chunks[at-1].key())); err == nil {
			at--
			run = append(before, run...)
			chunks = append(chunks[:at], chunks[at+1:]...)
		}
	}
	data := EncodeEvents(run)
	h, err := parseChunkHead(data)
	if err != nil {
		return chunks, err
	}
	chunks = append(chunks, chunkHead{})
	copy(chunks[at+1:], chunks[at:])
	chunks[at] = h
	return chunks, b.Put(h.key(), data)
}

// Range returns how many events precede the oldest kept event and the next event to come; both 0 if none is kept.
func (s *Events) Range() (oldest, next uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.chunks) == 0 {
		return 0, 0
	}
	return s.chunks[0].before, s.chunks[len(s.chunks)-1].end()
}

// Newest returns the newest entry whose events are stored here, 0 for none.
func (s *Events) Newest() rota.Index {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.chunks) == 0 {
		return 0
	}
	return s.chunks[len(s.chunks)-1].last
}

// Missing returns the first part of [from, to) that is not kept; it is empty, at to, if nothing is missing.
func (s *Events) Missing(from, to uint64) (uint64, uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].end() > from })
	for ; at < len(s.chunks) && from < to && s.chunks[at].before <= from; at++ {
		from = s.chunks[at].end()
	}
	if at < len(s.chunks) && s.chunks[at].before < to {
		to = s.chunks[at].before
	}
	return min(from, to), to
}

// Read returns the entries of the chunk that holds an event, given by how many events precede it, from the entry with
// that event on; none if it is not kept.
func (s *Events) Read(event uint64) ([]EventEntry, error) {
	h, ok := s.find(func(h chunkHead) bool { return h.end() > event })
	if !ok || h.before > event {
		return nil, nil
	}
	entries, err := s.load(h)
	at := sort.Search(len(entries), func(i int) bool { return entries[i].End() > event })
	return entries[at:], err
}

// At returns the entry at an index, or the newest earlier one that has events, with the entries after it in its chunk;
// none if nothing that old is kept.
func (s *Events) At(index rota.Index) ([]EventEntry, error) {
	s.mu.RLock()
	at := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].first > index })
	if at == 0 {
		s.mu.RUnlock()
		return nil, nil
	}
	h := s.chunks[at-1]
	s.mu.RUnlock()
	entries, err := s.load(h)
	i := sort.Search(len(entries), func(i int) bool { return entries[i].Index > index })
	return entries[max(0, i-1):], err
}

// Walk yields chunks from the newest to the oldest until f returns false. A damaged chunk comes with an error and the
// data of its head.
func (s *Events) Walk(f func(first, last rota.Index, entries []EventEntry, err error) bool) {
	s.mu.RLock()
	chunks := s.chunks
	s.mu.RUnlock()
	for i := len(chunks) - 1; i >= 0; i-- {
		entries, err := s.load(chunks[i])
		if err == nil && entries == nil {
			return // deleted meanwhile
		}
		if !f(chunks[i].first, chunks[i].last, entries, err) {
			return
		}
	}
}

// Drop deletes the chunk that holds an event, given by how many events precede it, if it is damaged: it counts as
// missing from then on, so that another node's copy can replace it. An intact chunk stays.
func (s *Events) Drop(event uint64) error {
	s.write.Lock()
	defer s.write.Unlock()
	at := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].end() > event })
	if at == len(s.chunks) || s.chunks[at].before > event {
		return nil
	}
	key, whole := s.chunks[at].key(), false
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(eventsBucket)
		if _, err := DecodeEvents(b.Get(key)); err == nil {
			whole = true
			return nil
		}
		return b.Delete(key)
	})
	if err != nil {
		return carried("drop events", err, "damaged events cannot be dropped")
	}
	if whole {
		return nil
	}
	s.mu.Lock()
	s.chunks = slices.Delete(slices.Clone(s.chunks), at, at+1)
	s.mu.Unlock()
	return nil
}

// DropAt is Drop for the chunk that begins with an entry.
func (s *Events) DropAt(first rota.Index) error {
	h, ok := s.find(func(h chunkHead) bool { return h.first >= first })
	if !ok || h.first != first {
		return nil
	}
	return s.Drop(h.before)
}

func (s *Events) find(ok func(chunkHead) bool) (chunkHead, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := sort.Search(len(s.chunks), func(i int) bool { return ok(s.chunks[i]) })
	if at == len(s.chunks) {
		return chunkHead{}, false
	}
	return s.chunks[at], true
}

// load decodes a chunk; none if it was deleted meanwhile.
func (s *Events) load(h chunkHead) (entries []EventEntry, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		data := tx.Bucket(eventsBucket).Get(h.key())
		if data == nil {
			return nil
		}
		if entries, err = DecodeEvents(data); err != nil {
			return fmt.Errorf("events of entries %d to %d: %w", h.first, h.last, err)
		}
		return nil
	})
	if err != nil {
		return nil, carried("read events", err, "events cannot be read from the archive")
	}
	return entries, nil
}
