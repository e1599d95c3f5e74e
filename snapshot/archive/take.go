package archive

import (
	"slices"
	"sort"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// take takes the records of numbers out of their blocks, which go on standing for the
// numbers: whoever is to be lacking from then on is taken out of held before. A torn block
// goes as a whole.
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
				s.records, s.bytes = s.records-1, s.bytes-uint64(len(r.value))
			}
			return goes
		})
		if err := s.replace(b, x, kept, len(rows)); err != nil {
			return err
		}
	}
	return nil
}

// replace writes what is left of the records of a block.
func (s *bookkeeping) replace(b *bbolt.Bucket, x block, kept []recordRow, before int) error {
	switch {
	case len(kept) == 0 && len(s.owed(x.first, x.last, 1)) == 0:
		return remove(b, x.key)
	case len(kept) == before:
		return nil
	}
	return putBlock(b, x.first, x.last, kept)
}

// tear takes a torn block out. What no other stands for then is lacking from then on, but
// those that are known to be nowhere.
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

// remove deletes a key. One that bbolt sees and does not find is in a damaged page, where
// nothing can be mended.
func remove(b *bbolt.Bucket, key []byte) error {
	if key = slices.Clone(key); b.Get(key) == nil {
		return rota.Refusef(rota.KindInternal, "archive", "a page is damaged: restart the node and follow its log")
	}
	return b.Delete(key)
}

// count counts all records anew: of a torn block nobody knows how many there were.
func (s *bookkeeping) count(b *bbolt.Bucket) {
	s.records, s.bytes, s.recount = 0, 0, false
	c := newRecordCursor(b)
	for row, ok := c.seek(0); ok; row, ok = c.step() {
		if !row.torn {
			s.records, s.bytes = s.records+1, s.bytes+uint64(len(row.value))
		}
	}
}

// owed are the numbers from…to that are held, have not gone with retention, and are not
// known to be nowhere: something must stand for them. At most so many are given.
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

// owes reports whether a number is owed, so that the lack of what would stand for it is damage.
func (s *bookkeeping) owes(seq uint64) bool {
	return seq > s.floor && s.held.Has(seq) && !s.absent.Has(seq)
}

// numbers are all numbers of spans.
func (s Spans) numbers() (seqs []uint64) {
	for _, x := range s {
		for seq := x.From; seq <= x.To; seq++ {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}
