package archive

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
)

// incoming is a record to be written: the data of its mark, when its job ended, and its encoding, or a function that
// returns it.
type incoming struct {
	mark   fsm.Mark
	ended  rota.Date
	staged fsm.StagedRecord
	data   []byte
}

func (r *incoming) append(b []byte) []byte {
	if r.data == nil {
		return r.staged.Append(b)
	}
	return append(b, r.data...)
}

// Put writes records, all or none, and holds their numbers, and those of also: numbers without a record because their
// jobs have ended again since. Numbers that are held already are skipped, so a batch may be repeated; only the latest
// end of a job is kept.
func (a *Jobs) Put(entries []peer.ArchiveRecord, also Spans) error {
	rows := make([]incoming, len(entries))
	for i, e := range entries {
		ended, err := fsm.DecodeEnded(e.Data)
		if err != nil || ended.Seq != e.Seq || e.Seq == 0 {
			return rota.Refusef(rota.KindInvalid, "archive",
				"record %d does not belong to a terminal job of that number", e.Seq)
		}
		rows[i] = incoming{mark: markOf(&ended), ended: ended.Job.Finished.Date, data: e.Data}
	}
	return a.put(rows, also, 0)
}

// PutStaged is Put for records of this node's own state: they are not decoded again for verification, which took half
// of a flush. applied is that state's newest entry.
func (a *Jobs) PutStaged(staged []fsm.StagedRecord, applied rota.Index) error {
	rows := make([]incoming, len(staged))
	for i, one := range staged {
		rows[i].staged = one
		rows[i].mark, rows[i].ended = one.Mark()
	}
	return a.put(rows, nil, applied)
}

// put writes records, and records the other numbers of also as having none; applied is that of PutStaged, or 0.
func (a *Jobs) put(rows []incoming, also Spans, applied rota.Index) error {
	packer, err := newPacker()
	if err != nil {
		return err
	}
	w := writer{packer: packer}
	defer w.release()
	return a.change(func(tx *bbolt.Tx, s *bookkeeping) error {
		w.s, w.records, w.ids = s, tx.Bucket(recordsBucket), marksOf(tx)
		w.records.FillPercent = 0.95 // numbers only grow
		s.applied = max(s.applied, uint64(applied))
		return w.put(rows, also)
	}, nil)
}

// writer puts the records of one transaction.
type writer struct {
	s       *bookkeeping
	packer  *packer
	records *bbolt.Bucket
	ids     marks
	// list are the numbers that are written.
	list []fresh
	// doubt means that a mark does not prove a later end.
	doubt bool
	// body is a buffer for one encoding. room is a buffer for keys and values, which the transaction refers to until
	// its end: a slice for each was rejected, because there are three a record.
	body, room []byte
	// raw are the records of the block that is being made.
	raw []byte
	// rooms are the buffers that are reused once the transaction is over.
	rooms []*[roomBytes]byte
	// places are those of the block that is being made.
	places []byte
}

// roomBytes is how much is allocated at a time, from the buffers kept for the next flush.
const roomBytes = 256 << 10

var roomPool = sync.Pool{New: func() any { return new([roomBytes]byte) }}

// fit makes sure that n bytes can be appended to room without moving it.
func (w *writer) fit(n int) {
	if cap(w.room)-len(w.room) < n {
		if n > roomBytes {
			w.room = make([]byte, 0, n)
			return
		}
		room := roomPool.Get().(*[roomBytes]byte)
		w.room, w.rooms = room[:0], append(w.rooms, room)
	}
}

// release returns the buffers; no transaction may still use them.
func (w *writer) release() {
	for _, room := range w.rooms {
		roomPool.Put(room)
	}
}

// taken returns the bytes appended to room since a length.
func (w *writer) taken(from int) []byte { return w.room[from:len(w.room):len(w.room)] }

// fresh is a number that is not held yet, or several without a record.
type fresh struct {
	seq, last uint64
	record    *incoming
	// lost means that there is no record because the job has a later end.
	lost bool
}

// id returns the id of the record's job.
func (f *fresh) id() string { return string(f.record.mark.ID) }

// put is Jobs.put within the transaction.
func (w *writer) put(rows []incoming, also Spans) error {
	list := make([]fresh, 0, len(rows))
	for i := range rows {
		seq := rows[i].mark.Seq
		if seq > w.s.floor && !w.s.held.Has(seq) {
			w.s.held.Add(seq, seq) // so that a number that occurs twice is written once
			list = append(list, fresh{seq: seq, last: seq, record: &rows[i]})
		}
	}
	if err := w.putMarks(list); err != nil {
		return err
	}
	for _, span := range also {
		for _, gap := range w.s.held.gaps(max(span.From, w.s.floor+1), span.To, math.MaxInt) {
			list = append(list, fresh{seq: gap.From, last: gap.To, lost: true})
		}
	}
	w.list = list
	w.hold() // a damaged block may have taken them along
	err := w.putRecords()
	w.s.held.cut(w.s.floor)
	return err
}

// putMarks writes the marks of the latest ends, and deletes the records of earlier ends. Marks are written in the order
// of their ids, so that each leaf is written once.
func (w *writer) putMarks(list []fresh) error {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(strings.Compare(list[a].id(), list[b].id()), cmp.Compare(list[a].seq, list[b].seq))
	})
	edits, of := make([]markRow, 0, len(list)), order[:0]
	for i, at := range order {
		f := &list[at]
		if i+1 < len(order) && list[order[i+1]].id() == f.id() {
			f.lost = true
			continue
		}
		w.fit(len(f.id()) + maxMark)
		from := len(w.room)
		w.room = append(w.room, f.id()...)
		id := w.taken(from)
		from = len(w.room)
		w.room = appendMarkOf(w.room, f.record.mark)
		edits, of = append(edits, markRow{id, w.taken(from)}), append(of, at)
	}
	var before []uint64
	err := w.ids.edit(edits, func(at int, old []byte) bool {
		f := &list[of[at]]
		seq, known := markSeq(old)
		if known && w.doubt {
			value, _, _ := recordAt(w.records, seq)
			known = intact(seq, value) && ofJob(value, []byte(f.id()))
		}
		if known && seq > f.seq {
			f.lost = true // this end is not the latest
		} else if known {
			before = append(before, seq)
		}
		return !f.lost
	})
	if err != nil {
		return err
	}
	return w.s.take(w.records, before)
}

// putRecords writes the records that are not lost, many of them in blocks.
func (w *writer) putRecords() error {
	list := w.list
	if !slices.IsSortedFunc(list, bySeq) {
		slices.SortFunc(list, bySeq)
	}
	blocks := len(list) >= blocksFrom
	for len(list) > 0 {
		n, err := w.putSome(list, blocks)
		if err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

func bySeq(a, b fresh) int { return cmp.Compare(a.seq, b.seq) }

// putSome writes as many numbers as make one block, and returns how many it handled.
func (w *writer) putSome(list []fresh, blocks bool) (n int, err error) {
	f := &list[0]
	x := blockOf(w.records.Cursor(), f.seq)
	switch {
	case x.key != nil && x.torn:
		_, err := w.s.tear(w.records, x)
		w.hold()
		return 0, err
	case x.covers(f.seq) && !f.lost:
		return 1, w.putWithin(x, f.record)
	case x.covers(f.seq):
		return f.upTo(x.last), nil
	}
	first, last := f.seq, f.seq
	w.raw, w.places = w.raw[:0], w.places[:0]
	for n < len(list) && list[n].seq < x.next && (n == 0 || blocks) {
		if f := &list[n]; f.lost {
			last = min(f.last, x.next-1)
			n += f.upTo(last)
			continue
		}
		r := list[n].record
		w.body = r.append(w.body[:0])
		if n > 0 && len(w.raw)+maxPacked(len(r.mark.ID), len(w.body)) > blockBytes {
			break
		}
		from := len(w.raw)
		w.raw = w.packer.append(w.raw, r.mark.Seq, r.ended, r.mark.ID, w.body)
		w.places = appendPlace(w.places, r.mark.Seq, len(w.raw))
		w.s.records, w.s.bytes = w.s.records+1, w.s.bytes+uint64(len(w.raw)-from)
		last = r.mark.Seq
		n++
	}
	key := seqKey(first)
	w.fit(maxBlock(len(w.raw), len(w.places)))
	at := len(w.room)
	if first == last && len(w.places) > 0 {
		w.room = append(w.room, w.raw...)
	} else {
		w.room = w.s.appendBlock(w.room, key, w.raw, w.places, last)
	}
	return n, w.records.Put(key, w.taken(at))
}

// upTo marks the numbers up to one as done; it returns 1 if these are all.
func (f *fresh) upTo(last uint64) int {
	if f.last <= last {
		return 1
	}
	f.seq = last + 1
	return 0
}

// putWithin puts a record into the block that covers its number.
func (w *writer) putWithin(x block, r *incoming) error {
	record := w.packer.append(nil, r.mark.Seq, r.ended, r.mark.ID, r.append(nil))
	rows := x.appendRows(nil)
	w.s.recount = w.s.recount || x.cut
	at, known := slices.BinarySearchFunc(rows, r.mark.Seq,
		func(row recordRow, seq uint64) int { return cmp.Compare(row.seq, seq) })
	if known {
		w.s.records, w.s.bytes = w.s.records-1, w.s.bytes-rows[at].size
		rows = slices.Delete(rows, at, at+1)
	}
	w.s.records, w.s.bytes = w.s.records+1, w.s.bytes+uint64(len(record))
	row := recordRow{seq: r.mark.Seq, last: r.mark.Seq, value: record, size: uint64(len(record))}
	return w.s.putBlock(w.records, x.first, x.last, slices.Insert(rows, at, row))
}

// hold records the numbers of the list as held.
func (w *writer) hold() {
	for i := range w.list {
		w.s.held.Add(w.list[i].seq, w.list[i].last)
	}
}

// maxMark is the maximum size of a mark.
const maxMark = 8 + 1 + 3*(1+255)
