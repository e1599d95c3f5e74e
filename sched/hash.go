package sched

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/rotasched/rota"
)

// Hash is a SHA-256 digest.
type Hash = [32]byte

// H returns the hash of SPEC §7.1: SHA-256 over each part's length, as four bytes big-endian, and its bytes. The
// lengths make it injective.
func H(parts ...[]byte) Hash {
	var m Message
	for _, part := range parts {
		m.Bytes(part)
	}
	return m.Sum()
}

// Message builds the input of one H in a buffer on the caller's stack: two ids, a seed and a tag fit, so the hot hashes
// allocate nothing.
type Message struct {
	fixed [256]byte
	n     int
	spill []byte
}

// room returns the next n bytes of the message, to be written.
func (m *Message) room(n int) []byte {
	if m.spill == nil && m.n+n <= len(m.fixed) {
		m.n += n
		return m.fixed[m.n-n : m.n]
	}
	if m.spill == nil {
		m.spill = append(make([]byte, 0, 2*(m.n+n)), m.fixed[:m.n]...)
	}
	at := len(m.spill)
	m.spill = append(m.spill, make([]byte, n)...)
	return m.spill[at:]
}

// Bytes adds a part.
func (m *Message) Bytes(part []byte) {
	to := m.room(4 + len(part))
	binary.BigEndian.PutUint32(to, uint32(len(part)))
	copy(to[4:], part)
}

// Text adds a part.
func (m *Message) Text(part string) {
	to := m.room(4 + len(part))
	binary.BigEndian.PutUint32(to, uint32(len(part)))
	copy(to[4:], part)
}

// Number adds a part of eight bytes, big-endian.
func (m *Message) Number(part uint64) {
	to := m.room(12)
	binary.BigEndian.PutUint32(to, 8)
	binary.BigEndian.PutUint64(to[4:], part)
}

// Sum returns the hash of the parts.
func (m *Message) Sum() Hash {
	if m.spill != nil {
		return sha256.Sum256(m.spill)
	}
	return sha256.Sum256(m.fixed[:m.n])
}

// MatchSeed returns the seed of a round (SPEC §7.1).
func MatchSeed(cluster rota.ClusterID, epoch uint64, height rota.Index, beacon Hash) Hash {
	var m Message
	m.Text("AICF|match")
	m.Text(string(cluster))
	m.Number(epoch)
	m.Number(uint64(height))
	m.Bytes(beacon[:])
	return m.Sum()
}

// LeaseID returns the id of the lease of one attempt (SPEC §7.1).
func LeaseID(job rota.JobID, worker rota.WorkerID, attempt int32, seed Hash) rota.LeaseID {
	var m Message
	m.Text("AICF|lease")
	m.Text(string(job))
	m.Text(string(worker))
	m.Number(uint64(int64(attempt)))
	m.Bytes(seed[:])
	return m.Sum()
}

// Tie returns the hash that decides which of equal jobs a worker takes: the least bytes win (SPEC §7.5).
func Tie(job rota.JobID, worker rota.WorkerID, seed Hash) Hash {
	var m Message
	m.Text("AICF|tie")
	m.Text(string(job))
	m.Text(string(worker))
	m.Bytes(seed[:])
	return m.Sum()
}

// FirstBeacon returns a cluster's beacon before its first leader (SPEC §7.1).
func FirstBeacon(cluster rota.ClusterID) Hash {
	return H([]byte("rota|beacon"), []byte(cluster))
}

// NextBeacon returns the beacon after a BeginTerm with these 32 random bytes.
func NextBeacon(beacon, random Hash) Hash {
	return H([]byte("rota|beacon"), beacon[:], random[:])
}

// randomTurn returns the rotation of the strategy `random`: the first eight bytes of H("AICF|random", job, seed),
// modulo the number of workers (SPEC §7.6).
func randomTurn(job rota.JobID, seed Hash) uint64 {
	var m Message
	m.Text("AICF|random")
	m.Text(string(job))
	m.Bytes(seed[:])
	return m.first()
}

// unseededTurn is randomTurn without a seed: the number of workers replaces it.
func unseededTurn(job rota.JobID, workers int) uint64 {
	var m Message
	m.Text("AICF|random")
	m.Text(string(job))
	m.Number(uint64(workers))
	return m.first()
}

// first returns the first eight bytes of the sum.
func (m *Message) first() uint64 {
	sum := m.Sum()
	return binary.BigEndian.Uint64(sum[:8])
}
