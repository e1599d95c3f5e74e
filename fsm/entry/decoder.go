package entry

import (
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Decoder decodes entries with the same result as package proto. It decodes the bulk of a busy log, submissions and
// leases' verbs, into buffers that it reuses: decoding was a seventh of applying, and a quarter of that was creating
// objects that live for one entry. It passes anything unknown or not in the usual form to package proto, which decides
// what an entry contains (FuzzDecoder). The zero Decoder is ready for use.
//
// An entry is valid until the next call. Data that outlives it, such as payloads and outputs, is copied: a slice of the
// entry's bytes would keep all of them alive.
type Decoder struct {
	entry   fsmpb.Entry
	list    []*fsmpb.Op
	submits []submitRoom
	leases  []leaseRoom
	rounds  []roundRoom
	pairs   []fsmpb.Pair
	// ids are those of new jobs; brief are texts that no row stores.
	ids, brief Texts
	// words are texts that many operations share: names of queues, tenants, types and workers.
	words map[string]string
	// last are the last words of each field, by field number: most operations have the same words as the one before.
	last [wordFields]string
}

type submitRoom struct {
	op     fsmpb.Op
	kind   fsmpb.Op_Submit
	submit fsmpb.Submit
	spec   fsmpb.JobSpec
}

type leaseRoom struct {
	op    fsmpb.Op
	kind  fsmpb.Op_Lease
	lease fsmpb.LeaseOp
}

type roundRoom struct {
	op    fsmpb.Op
	kind  fsmpb.Op_Round
	round fsmpb.Round
}

// maxWords is the maximum number of cached words; beyond it the cache is reset.
const maxWords = 1 << 15

// decode decodes the body of an envelope.
func (d *Decoder) decode(body []byte) (*fsmpb.Entry, error) {
	if d != nil && d.usual(body) {
		return &d.entry, nil
	}
	entry := &fsmpb.Entry{}
	if err := proto.Unmarshal(body, entry); err != nil {
		return nil, err
	}
	if unknown(entry.ProtoReflect()) {
		return nil, errUnknown
	}
	return entry, nil
}

// usual decodes an entry of the usual form and reports whether it was one.
func (d *Decoder) usual(b []byte) bool {
	var term uint64
	var now int64
	ops := 0
	for rest := b; len(rest) > 0; {
		f, ok := nextField(&rest)
		if !ok || f.number == entryOps && f.kind != protowire.BytesType {
			return false
		}
		if f.number == entryOps {
			ops++
		}
	}
	if ops > limits.MaxEntryOps {
		return false
	}
	d.begin(ops)
	for len(b) > 0 {
		f, _ := nextField(&b)
		switch {
		case f.number == entryTerm && f.kind == protowire.VarintType:
			term = f.value
		case f.number == entryNowMs && f.kind == protowire.VarintType:
			now = int64(f.value)
		case f.number == entryOps:
			op, ok := d.op(f.bytes)
			if !ok {
				return false
			}
			d.list = append(d.list, op)
		default:
			return false
		}
	}
	d.entry.Reset()
	d.entry.Term, d.entry.NowMs, d.entry.Ops = term, now, d.list
	return true
}

// begin reserves room for `ops` operations and discards the previous entry.
func (d *Decoder) begin(ops int) {
	if cap(d.submits) < ops { // both at their maximum: neither may move while it is filled
		d.submits, d.leases = make([]submitRoom, 0, ops), make([]leaseRoom, 0, ops)
	}
	d.list, d.submits, d.leases = d.list[:0], d.submits[:0], d.leases[:0]
	d.rounds, d.pairs = d.rounds[:0], d.pairs[:0]
}

// op decodes one operation and its caller.
func (d *Decoder) op(b []byte) (*fsmpb.Op, bool) {
	var caller [opRequest - opActor + 1]string
	var body field
	for rest := b; len(rest) > 0; {
		f, ok := nextField(&rest)
		switch {
		case !ok || f.kind != protowire.BytesType:
			return unusualOp(b)
		case f.number >= opActor && f.number <= opRequest:
			if caller[f.number-opActor], ok = d.ofCaller(f); !ok {
				return unusualOp(b)
			}
		case body.number != 0:
			return unusualOp(b)
		default:
			body = f
		}
	}
	op, ok := d.body(body)
	if !ok {
		return unusualOp(b)
	}
	op.Actor, op.Via, op.Request = caller[0], caller[1], caller[2]
	return op, true
}

// ofCaller decodes the caller, which many operations share, or the id of a call, which only the operations of one batch
// share: caching it would push out useful words.
func (d *Decoder) ofCaller(f field) (string, bool) {
	if f.number != opRequest {
		return d.word(f)
	}
	last := &d.last[f.number%wordFields]
	if *last == string(f.bytes) {
		return *last, true
	}
	w, ok := text(f)
	if ok && len(w) <= maxWordBytes {
		*last = w
	}
	return w, ok
}

// body decodes an operation of a kind that the decoder knows.
func (d *Decoder) body(f field) (*fsmpb.Op, bool) {
	switch f.number {
	case opSubmit:
		d.submits = d.submits[:len(d.submits)+1]
		r := &d.submits[len(d.submits)-1]
		return &r.op, d.submit(r, f.bytes)
	case opRound:
		r := d.roundRoom()
		return &r.op, d.round(r, f.bytes)
	case opLease:
		d.leases = d.leases[:len(d.leases)+1]
		r := &d.leases[len(d.leases)-1]
		return &r.op, d.lease(r, f.bytes)
	}
	return nil, false
}

// unusualOp decodes an operation using package proto; ok is also false if it contains something that this binary does
// not know.
func unusualOp(b []byte) (*fsmpb.Op, bool) {
	op := &fsmpb.Op{}
	return op, proto.Unmarshal(b, op) == nil && !unknown(op.ProtoReflect())
}

func (d *Decoder) submit(r *submitRoom, b []byte) bool {
	*r = submitRoom{}
	r.op.Op, r.kind.Submit = &r.kind, &r.submit
	for len(b) > 0 {
		f, ok := nextField(&b)
		switch {
		case ok && f.number == submitSpec && f.kind == protowire.BytesType && r.submit.Spec == nil:
			r.submit.Spec = &r.spec
			if !d.jobSpec(&r.spec, f.bytes) {
				return false
			}
		case ok && f.number == submitMinted && f.kind == protowire.VarintType:
			r.submit.Minted = f.value != 0
		default:
			return false
		}
	}
	return true
}

func (d *Decoder) lease(r *leaseRoom, b []byte) bool {
	*r = leaseRoom{}
	r.op.Op, r.kind.Lease = &r.kind, &r.lease
	return d.leaseOp(&r.lease, b)
}

// roundRoom returns room for one more round. An entry mostly has one, and with many queues hundreds. When the buffer is
// used up, slices of the old one stay valid.
func (d *Decoder) roundRoom() *roundRoom {
	if len(d.rounds) == cap(d.rounds) {
		d.rounds = make([]roundRoom, 0, max(1, 2*cap(d.rounds)))
	}
	d.rounds = d.rounds[:len(d.rounds)+1]
	return &d.rounds[len(d.rounds)-1]
}

// round decodes a round without holds or preemptions into reused buffers; each job has one pair.
func (d *Decoder) round(room *roundRoom, b []byte) bool {
	n := 0
	for rest := b; len(rest) > 0; {
		f, ok := nextField(&rest)
		numeric := f.number < roundQueue || f.number == roundWith
		if !ok || (f.kind == protowire.VarintType) != numeric || f.number > roundPairs && f.number != roundWith {
			return false
		}
		if f.number == roundPairs {
			n++
		}
	}
	if cap(d.pairs)-len(d.pairs) < n { // slices of the old buffer stay valid
		d.pairs = make([]fsmpb.Pair, 0, n)
	}
	r := &room.round
	r.Reset()
	if n > 0 {
		r.Pairs = make([]*fsmpb.Pair, 0, n)
	}
	for len(b) > 0 {
		f, _ := nextField(&b)
		ok := true
		switch f.number {
		case roundEpoch:
			r.Epoch = f.value
		case roundHeight:
			r.Height = f.value
		case roundWith:
			r.With = uint32(f.value)
		case roundQueue:
			r.Queue, ok = d.word(f)
		case roundPairs:
			d.pairs = d.pairs[:len(d.pairs)+1]
			p := &d.pairs[len(d.pairs)-1]
			*p = fsmpb.Pair{}
			ok = d.pair(p, f.bytes)
			r.Pairs = append(r.Pairs, p)
		}
		if !ok {
			return false
		}
	}
	room.kind.Round, room.op.Op = r, &room.kind
	return true
}
