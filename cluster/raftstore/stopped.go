package raftstore

import (
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota/cluster/raftstore/wal"
)

// StoppedLog is the log of a node that is not running, open for reading.
type StoppedLog struct {
	// First and Last bound the newest entries without a gap, 0 for none.
	First, Last uint64

	log   raft.LogStore // nil if there are no entries
	close func() error
}

// OpenStopped checks and opens the log in a data directory; it writes nothing.
func OpenStopped(data string) (*StoppedLog, error) {
	path := filepath.Join(data, raftFile)
	found, err := surveyLog(data)
	if err != nil || len(found.spans) == 0 {
		return &StoppedLog{}, err
	}
	span := found.spans[len(found.spans)-1]
	stopped := &StoppedLog{First: span.first, Last: span.last}
	if found.files != nil {
		files, err := wal.OpenToRead(found.files)
		if err != nil {
			return nil, err
		}
		stopped.log, stopped.close = files, files.Close
		return stopped, nil
	}
	bolt, err := openToRead(path)
	if err != nil {
		return nil, err
	}
	stopped.log, stopped.close = sealedLog{bolt}, bolt.Close
	return stopped, nil
}

// GetLog reads and checks one entry.
func (l *StoppedLog) GetLog(index uint64, entry *raft.Log) error {
	if l.log == nil {
		return raft.ErrLogNotFound
	}
	return readEntry(l.log, index, entry)
}

// Close closes the log.
func (l *StoppedLog) Close() error {
	if l.log == nil {
		return nil
	}
	return l.close()
}
