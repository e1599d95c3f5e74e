package archive

import (
	"slices"
	"sort"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// take removes the records of numbers from their blocks, which keep covering the numbers: callers that want a number to
// count as missing remove it from held first. A torn block is removed as a whole.
func (s *bookkeeping) take(b *bbolt.Bucket, seqs []uint64) error {
	slices.Sort(seqs)
	var rows []recordRow
	for len(seqs) > 0 {
		x := blockOf(b.Cursor(), seqs[0])
		to := sort.Search(len(seqs), func(i int) bool { return seqs[i] >= x.next })
		some := seqs[:to]
		seqs = seqs[to:]
		if x.key == nil || !x.torn && some[0] > x.last {
			continue
		}
		if x.torn {
			if _, err := s.tear(b, x); err != nil {
				return err
			}
			continue
		}
		rows, s.recount = x.appendRows(rows[:0]), s.recount || x.cut
		kept := slices.DeleteFunc(rows, func(r recordRow) bool {
			_, goes := slices.BinarySearch(some, r.seq)
			if goes {
				s.records, s.bytes = s.records-1, s.bytes-r.size
			}
			return goes
		})
		if err := s.replace(b, x, kept, len(rows)); err != nil {
			return err
		}
	}
	return nil
}

// replace writes the remaining records of a block.
func (s *bookkeeping) replace(b *bbolt.Bucket, x block, kept []recordRow, before int) error {
	switch {
	case len(kept) == 0 && len(s.owed(x.first, x.last, 1)) == 0:
		return remove(b, x.key)
	case len(kept) == before:
		return nil
	}
	return s.putBlock(b, x.first, x.last, kept)
}

// tear removes a torn block. Numbers that no other block then covers count as missing from then on, except those known
// not to exist anywhere.
func (s *bookkeeping) tear(b *bbolt.Bucket, x block) (lost Spans, err error) {
	if err := remove(b, x.key); err != nil {
		return nil, err
	}
	s.recount = true
	from := x.first
	if y := blockOf(b.Cursor(), from); y.covers(from) { // its key was a wrong one
		from = y.last + 1
	}
	if lost = s.owed(from, x.next-1, 1<<30); len(lost) > 0 {
		for _, y := range lost {
			s.held.removeSpan(y)
		}
	}
	return lost, nil
}

// remove deletes a key. A key that bbolt lists but does not find is in a damaged page, which cannot be repaired.
func remove(b *bbolt.Bucket, key []byte) error {
	if key = slices.Clone(key); b.Get(key) == nil {
		return rota.Refusef(rota.KindInternal, "archive", "a page is damaged: restart the node and follow its log")
	}
	return b.Delete(key)
}

// count counts all records again: the number of records in a torn block is unknown.
func (s *bookkeeping) count(b *bbolt.Bucket) {
	s.records, s.bytes, s.recount = 0, 0, false
	c := newRecordCursor(b)
	for row, ok := c.seek(0); ok; row, ok = c.step() {
		if !row.torn {
			s.records, s.bytes = s.records+1, s.bytes+row.size
		}
	}
}

// owed returns the numbers from…to that are held, were not deleted by retention, and are not known to be absent
// everywhere: a block must cover them. It returns at most most numbers.
func (s *bookkeeping) owed(from, to, most uint64) (owed Spans) {
	from = max(from, s.floor+1)
	for at := s.held.find(from); at < len(s.held) && s.held[at].From <= to; at++ {
		owed.Add(max(s.held[at].From, from), min(s.held[at].To, to))
		for _, y := range s.absent[s.absent.find(s.held[at].From):] {
			if y.From > s.held[at].To {
				break
			}
			owed.removeSpan(y)
		}
		if n := owed.Count(); n >= most {
			for n > most {
				x := &owed[len(owed)-1]
				less := min(n-most, x.To-x.From+1)
				if x.To, n = x.To-less, n-less; x.To < x.From {
					owed = owed[:len(owed)-1]
				}
			}
			break
		}
	}
	return owed
}

// owes reports whether a number is owed, so that it is damage if no block covers it.
func (s *bookkeeping) owes(seq uint64) bool {
	return seq > s.floor && s.held.Has(seq) && !s.absent.Has(seq)
}

// numbers returns all numbers of spans.
func (s Spans) numbers() (seqs []uint64) {
	for _, x := range s {
		for seq := x.From; seq <= x.To; seq++ {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}
