package fsm

import (
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// opener decodes entries as package proto does, and reads what most of a busy log
// consists of, submissions and leases' verbs, into room that it keeps: that decoding
// was a seventh of applying, a quarter of it making objects that one entry lives. What
// it does not know, or what is written in any way but the usual, it leaves to package
// proto, whose word on what an entry holds is the last (FuzzOpener).
//
// An entry that it gave is valid until the next. What lives on, such as payloads and
// outputs, is copied: a part of the entry's bytes would keep all of them.
type opener struct {
	entry   fsmpb.Entry
	list    []*fsmpb.Op
	submits []submitRoom
	leases  []leaseRoom
	rounds  []roundRoom
	pairs   []fsmpb.Pair
	// ids are those of new jobs; brief are texts that no row keeps.
	ids, brief texts
	// words are those that many operations share: names of queues, tenants, types and
	// workers.
	words map[string]string
	// last are the words that fields held last, by the fields' numbers: most operations
	// say the same as the one before.
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

// wordsMost bounds the words that are kept: beyond it they are begun anew.
const wordsMost = 1 << 15

// decode reads the body of an envelope.
func (o *opener) decode(body []byte) (*fsmpb.Entry, error) {
	if o != nil && o.usual(body) {
		return &o.entry, nil
	}
	entry := &fsmpb.Entry{}
	return entry, proto.Unmarshal(body, entry)
}

// usual reads an entry of the usual form, and says whether it was one.
func (o *opener) usual(b []byte) bool {
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
	o.begin(ops)
	for len(b) > 0 {
		f, _ := nextField(&b)
		switch {
		case f.number == entryTerm && f.kind == protowire.VarintType:
			term = f.value
		case f.number == entryNowMs && f.kind == protowire.VarintType:
			now = int64(f.value)
		case f.number == entryOps:
			op, ok := o.op(f.bytes)
			if !ok {
				return false
			}
			o.list = append(o.list, op)
		default:
			return false
		}
	}
	o.entry.Reset()
	o.entry.Term, o.entry.NowMs, o.entry.Ops = term, now, o.list
	return true
}

// begin makes room for so many operations; what was read before is gone.
func (o *opener) begin(ops int) {
	if cap(o.submits) < ops { // both at their most: none may move while it is filled
		o.submits, o.leases = make([]submitRoom, 0, ops), make([]leaseRoom, 0, ops)
	}
	o.list, o.submits, o.leases = o.list[:0], o.submits[:0], o.leases[:0]
	o.rounds, o.pairs = o.rounds[:0], o.pairs[:0]
}

// op reads one operation.
func (o *opener) op(b []byte) (*fsmpb.Op, bool) {
	rest := b
	f, ok := nextField(&rest)
	if ok && f.kind == protowire.BytesType && len(rest) == 0 {
		switch f.number {
		case opSubmit:
			o.submits = o.submits[:len(o.submits)+1]
			if r := &o.submits[len(o.submits)-1]; o.submit(r, f.bytes) {
				return &r.op, true
			}
		case opRound:
			if r := o.roundRoom(); o.round(r, f.bytes) {
				return &r.op, true
			}
		case opLease:
			o.leases = o.leases[:len(o.leases)+1]
			if r := &o.leases[len(o.leases)-1]; o.lease(r, f.bytes) {
				return &r.op, true
			}
		}
	}
	op := &fsmpb.Op{}
	return op, proto.Unmarshal(b, op) == nil
}

func (o *opener) submit(r *submitRoom, b []byte) bool {
	*r = submitRoom{}
	r.op.Op, r.kind.Submit = &r.kind, &r.submit
	for len(b) > 0 {
		f, ok := nextField(&b)
		switch {
		case ok && f.number == submitSpec && f.kind == protowire.BytesType && r.submit.Spec == nil:
			r.submit.Spec = &r.spec
			if !o.jobSpec(&r.spec, f.bytes) {
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

func (o *opener) lease(r *leaseRoom, b []byte) bool {
	*r = leaseRoom{}
	r.op.Op, r.kind.Lease = &r.kind, &r.lease
	return o.leaseOp(&r.lease, b)
}
