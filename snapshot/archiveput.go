package snapshot

import (
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// incoming is a record on its way in: what its mark says, when its job ended, and
// its encoding, appended where it is asked for.
type incoming struct {
	mark   fsm.Mark
	ended  rota.Date
	append func(b []byte) []byte
}

// Put writes records, all or none, and holds their numbers, and those of also
// too: numbers without a record, as their jobs have ended again since.
// Numbers that are held already are passed over, so a batch may be repeated; of
// one job the latest end alone is kept.
func (a *Archive) Put(entries []Entry, also Spans) error {
	rows := make([]incoming, len(entries))
	for i, e := range entries {
		ended, err := fsm.DecodeEnded(e.Data)
		if err != nil || ended.Seq != e.Seq || e.Seq == 0 {
			return rota.Refusef(rota.Invalid, "archive", "record %d is none of a terminal job of that number", e.Seq)
		}
		rows[i] = incoming{markOf(&ended), ended.Job.FinishedDate, func(b []byte) []byte { return append(b, e.Data...) }}
	}
	return a.put(len(rows), func(i int) incoming { return rows[i] }, also)
}

// PutStaged is Put for records of this node's own state: they are not decoded again to
// see that they can be, which took half of a flush.
func (a *Archive) PutStaged(staged []fsm.StagedRecord) error {
	return a.put(len(staged), func(i int) incoming {
		s := staged[i]
		mark, ended := s.Mark()
		return incoming{mark, ended, s.Append}
	}, nil)
}

// put writes n records.
func (a *Archive) put(n int, row func(int) incoming, also Spans) error {
	packer, err := newPacker()
	if err != nil {
		return err
	}
	return a.change(func(tx *bbolt.Tx, s *archiveState) error {
		w := archiveWriter{s: s, packer: packer, records: tx.Bucket(archiveRecords), ids: tx.Bucket(archiveIDs)}
		w.records.FillPercent = 0.95 // numbers only grow
		for i := range n {
			if err := w.put(row(i)); err != nil {
				return err
			}
		}
		for _, span := range also {
			s.held.Add(span.From, span.To)
		}
		s.held.cut(s.floor)
		return nil
	}, nil)
}

// archiveWriter puts the records of one transaction.
type archiveWriter struct {
	s            *archiveState
	packer       *packer
	records, ids *bbolt.Bucket
	// body is room for one encoding; room for keys and values, which the transaction
	// keeps until its end: a slice for each was refused, as there are three a record.
	body, room []byte
}

// roomBytes is how much of it is made at a time.
const roomBytes = 256 << 10

// fit makes sure that so many bytes can be appended to room without moving it.
func (w *archiveWriter) fit(n int) {
	if cap(w.room)-len(w.room) < n {
		w.room = make([]byte, 0, max(n, roomBytes))
	}
}

// taken is what was appended to room since a length.
func (w *archiveWriter) taken(from int) []byte { return w.room[from:len(w.room):len(w.room)] }

func (w *archiveWriter) put(r incoming) error {
	s, seq := w.s, r.mark.Seq
	if seq <= s.floor || s.held.Has(seq) {
		return nil
	}
	s.held.Add(seq, seq)
	w.fit(len(r.mark.ID))
	at := len(w.room)
	w.room = append(w.room, r.mark.ID...)
	id := w.taken(at)
	if old, known := parseMark(id, w.ids.Get(id)); known {
		if old.Seq > seq {
			return nil // this end is not the latest
		}
		if err := s.drop(w.records, old.Seq); err != nil {
			return err
		}
	}
	w.body = r.append(w.body[:0])
	w.fit(packedMost(id, w.body))
	at = len(w.room)
	w.room = w.packer.append(w.room, seq, r.ended, id, w.body)
	value := w.taken(at)
	if err := w.records.Put(seqKey(seq), value); err != nil {
		return err
	}
	w.fit(markMost)
	at = len(w.room)
	w.room = appendMarkOf(w.room, r.mark)
	if err := w.ids.Put(id, w.taken(at)); err != nil {
		return err
	}
	s.records, s.bytes = s.records+1, s.bytes+uint64(len(value))
	return nil
}

// markMost is the room that a mark takes at most.
const markMost = 8 + 1 + 3*(1+255)
