package raftstore

import (
	"path/filepath"

	"github.com/hashicorp/raft"
)

// StoppedLog is the log of a node that is not running, open for reading.
type StoppedLog struct {
	// First and Last bound the newest entries without a gap, 0 for none.
	First, Last uint64

	bolt *boltLog // nil if there are no entries
}

// OpenStopped checks and opens the log in a data directory; it writes nothing.
func OpenStopped(data string) (*StoppedLog, error) {
	path := filepath.Join(data, raftFile)
	found, err := surveyLog(path)
	if err != nil || len(found.spans) == 0 {
		return &StoppedLog{}, err
	}
	span := found.spans[len(found.spans)-1]
	bolt, err := openToRead(path)
	if err != nil {
		return nil, err
	}
	return &StoppedLog{First: span.first, Last: span.last, bolt: bolt}, nil
}

// GetLog reads and checks one entry.
func (l *StoppedLog) GetLog(index uint64, entry *raft.Log) error {
	if l.bolt == nil {
		return raft.ErrLogNotFound
	}
	return readEntry(l.bolt, index, entry)
}

// Close closes the log.
func (l *StoppedLog) Close() error {
	if l.bolt == nil {
		return nil
	}
	return l.bolt.Close()
}
