package raftstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/rotasched/rota/internal/failpoint"
)

// The keys that hashicorp/raft uses, and the single key that stores its two keys of the vote.
var (
	keyCurrentTerm  = []byte("CurrentTerm")
	keyLastVoteTerm = []byte("LastVoteTerm")
	keyLastVoteCand = []byte("LastVoteCand")
	keyVote         = []byte("rota.vote.1")
)

// errVoteHalf reports a vote's candidate without its term.
var errVoteHalf = errors.New("store vote: a candidate without the term voted in")

// stableStore keeps raft's term and vote, each with a checksum.
//
// hashicorp/raft stores a vote as two keys in two transactions, first the term, then the candidate. A crash between
// them leaves the new term with the previous candidate, and after the restart that candidate receives a vote in the new
// term without a check of its log. So this store only remembers the term, and writes both as one value when the
// candidate follows; reads always return the last complete vote.
type stableStore struct {
	inner  raft.StableStore
	writer *writer

	mu          sync.Mutex // guards the fields below
	pendingTerm uint64     // a vote's term whose candidate is still missing; 0 for none
	voteTerm    uint64     // the complete vote on disk; 0 for none
	voteCand    []byte
	term        uint64 // the current term on disk; 0 for none
}

// newStableStore reads the stored values. Damage prevents the start.
func newStableStore(inner raft.StableStore, writer *writer) (*stableStore, error) {
	s := &stableStore{inner: inner, writer: writer}
	vote, err := s.Get(keyVote)
	if err == nil {
		s.voteTerm, s.voteCand, err = decodeVote(vote)
	}
	if err != nil && !isNotFound(err) {
		return nil, damaged(filepath.Join(writer.dir, raftFile), err.Error())
	}
	if s.term, err = s.getUint64(keyCurrentTerm); err != nil && !isNotFound(err) {
		return nil, damaged(filepath.Join(writer.dir, raftFile), err.Error())
	}
	return s, nil
}

// Set stores a value. It stores the candidate of a vote together with the vote's term, which must have been set before.
func (s *stableStore) Set(key, value []byte) error {
	if !bytes.Equal(key, keyLastVoteCand) {
		return s.put(key, value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pendingTerm == 0 {
		return errVoteHalf
	}
	failpoint.Pass("vote-before-store")
	if err := s.put(keyVote, encodeVote(s.pendingTerm, value)); err != nil {
		return err
	}
	failpoint.Pass("vote-after-store")
	s.voteTerm, s.voteCand, s.pendingTerm = s.pendingTerm, bytes.Clone(value), 0
	return nil
}

// Get reads a value. The error for a missing key has the text "not found", since raft compares the text.
func (s *stableStore) Get(key []byte) ([]byte, error) {
	if bytes.Equal(key, keyLastVoteCand) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.voteTerm == 0 {
			return nil, raftboltdb.ErrKeyNotFound
		}
		return bytes.Clone(s.voteCand), nil
	}
	sealed, err := s.inner.Get(key)
	if err != nil {
		return nil, err
	}
	value, err := openValue(key, sealed)
	if err != nil {
		s.writer.die(err)
	}
	return value, err
}

// SetUint64 stores a number; the term of a vote waits for its candidate.
func (s *stableStore) SetUint64(key []byte, value uint64) error {
	switch {
	case bytes.Equal(key, keyLastVoteTerm):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pendingTerm = value
		return s.writer.failure()
	case bytes.Equal(key, keyCurrentTerm):
		return s.setTerm(value)
	}
	return s.put(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 reads a number.
func (s *stableStore) GetUint64(key []byte) (uint64, error) {
	if bytes.Equal(key, keyLastVoteTerm) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.voteTerm == 0 {
			return 0, raftboltdb.ErrKeyNotFound
		}
		return s.voteTerm, nil
	}
	return s.getUint64(key)
}

// setTerm stores the current term, without a write if it is already on disk.
//
// hashicorp/raft panics when this fails. By then Fatal has been called, so production never reaches this point. Where
// Fatal returns (tests with many nodes in one process), a panic would end all of them, and continuing would let the
// node act in a term that a restart forgets. So the calling goroutine ends: raft's main loop or a connection's, either
// of which stops this node's raft permanently.
func (s *stableStore) setTerm(term uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if term == s.term {
		return nil
	}
	if err := s.put(keyCurrentTerm, binary.BigEndian.AppendUint64(nil, term)); err != nil {
		runtime.Goexit()
	}
	s.term = term
	return nil
}

func (s *stableStore) getUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, &DamagedValueError{string(key), fmt.Sprintf("it has %d bytes instead of 8", len(value))}
	}
	return binary.BigEndian.Uint64(value), nil
}

func (s *stableStore) put(key, value []byte) error {
	key, sealed := bytes.Clone(key), sealValue(key, value)
	return s.writer.do("store "+string(key), func() error { return s.inner.Set(key, sealed) })
}

// encodeVote puts a vote's term (8 bytes, big endian) before its candidate.
func encodeVote(term uint64, candidate []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, term), candidate...)
}

func decodeVote(vote []byte) (term uint64, candidate []byte, err error) {
	if len(vote) < 8 {
		return 0, nil, &DamagedValueError{string(keyVote), fmt.Sprintf("it has %d bytes", len(vote))}
	}
	return binary.BigEndian.Uint64(vote), bytes.Clone(vote[8:]), nil
}

// isNotFound compares the text, as raft does: each store has its own error value.
func isNotFound(err error) bool {
	return err != nil && err.Error() == raftboltdb.ErrKeyNotFound.Error()
}
