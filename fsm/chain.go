package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// settleChain encodes the entry's events, counts them, and lengthens the chain by
// them (SPEC §12.1); an entry without events leaves all as it is. The head of the
// chain is part of the header, so nodes whose events differed would differ in
// their digest too.
func (jn *journal) settleChain() []byte {
	if len(jn.events) == 0 {
		return nil
	}
	h := &jn.m.head
	if jn.events[0].ID.Incarnation != h.incarnation { // the entry that founds the cluster
		for i := range jn.events {
			jn.events[i].ID.Incarnation = h.incarnation
		}
	}
	jn.scratch = AppendEvents(jn.scratch[:0], h.incarnation, jn.events)
	h.chain = NextChain(h.chain, jn.m.at, jn.scratch)
	h.events += uint64(len(jn.events))
	return slices.Clone(jn.scratch)
}

// NextChain lengthens a chain by the entry at an index, given its events' bytes:
// H(previous, index, bytes) as in SPEC §7.1. The bytes are hashed where they lie.
func NextChain(previous sched.Hash, index rota.Index, events []byte) sched.Hash {
	var head [4 + 32 + 4 + 8 + 4]byte
	binary.BigEndian.PutUint32(head[0:], 32)
	copy(head[4:], previous[:])
	binary.BigEndian.PutUint32(head[36:], 8)
	binary.BigEndian.PutUint64(head[40:], uint64(index))
	binary.BigEndian.PutUint32(head[48:], uint32(len(events)))
	s := sha256.New()
	s.Write(head[:])
	s.Write(events)
	var next sched.Hash
	s.Sum(next[:0])
	return next
}

// settleHeader puts the header's new hash in the place of its old one.
func (m *Machine) settleHeader() {
	m.head.index = m.at
	m.ledger.sub(m.head.hash)
	m.head.hash = hashRow(&m.ledger.enc, tagHeader, &m.head)
	m.ledger.add(m.head.hash)
}
