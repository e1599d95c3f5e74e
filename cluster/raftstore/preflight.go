package raftstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/rotasched/rota/cluster/raftstore/wal"
	"github.com/rotasched/rota/internal/boltfile"
)

// Report holds what Preflight found.
type Report struct {
	// Empty reports that there is no raft state: no term, entry or snapshot.
	Empty bool
	// FirstIndex and LastIndex bound the log, 0 for an empty one; Entries is the number of entries.
	FirstIndex, LastIndex, Entries uint64
	// WholeFrom is the oldest entry after which none is missing: later than FirstIndex where an installed snapshot left
	// a gap.
	WholeFrom uint64
	// Term is the current term.
	Term uint64
	// SnapshotIndex is the index of the newest whole snapshot, 0 for none; Snapshots counts the readable ones.
	SnapshotIndex uint64
	Snapshots     int
	// SetAside names damaged snapshots that were not needed and were moved to the directory snapshots-damaged; Reaped
	// names unfinished ones that were removed.
	SetAside, Reaped []string
	// Took is the total duration.
	Took time.Duration
}

// bucketsMadeBy is the last transaction up to which raft-boltdb's buckets may be missing: a new file has transactions 0
// and 1, and the next one creates them.
const bucketsMadeBy = 1

// logSpan is a range of indexes without a gap, both ends included.
type logSpan struct{ first, last uint64 }

// logSummary holds what the scan of raft.db found.
type logSummary struct {
	spans    []logSpan
	lastTerm uint64 // of the last entry
	term     uint64 // the current term, 0 for none
	hasVote  bool
	// files are those of the log, nil if it is in raft.db.
	files *wal.Found
}

// Preflight checks the raft state in dir before raft reads it, and returns an error for faults where raft would panic
// or, worse, silently continue. hashicorp/raft skips a snapshot with unreadable metadata as if it did not exist, and
// panics on a corrupt one with too short a log behind it; of bbolt's pages only the two heads have a checksum.
// Preflight reads the log and the newest snapshot once. No store may be open on dir.
func Preflight(dir string, logger *slog.Logger) (*Report, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	began := time.Now()
	found, err := survey(dir)
	if err != nil {
		return nil, err
	}
	report := found.report
	if err := reap(dir, found.unfinished, report); err != nil {
		return nil, err
	}
	if err := setAside(dir, found.snapshots, report, logger); err != nil {
		return nil, err
	}
	report.Took = time.Since(began)
	return report, nil
}

// surveyed is the result of survey.
type surveyed struct {
	report     *Report
	snapshots  []*snapshotFound
	unfinished []string
}

// survey is the read-only part of Preflight.
func survey(dir string) (*surveyed, error) {
	report := &Report{}
	snapshots, unfinished, err := surveySnapshots(dir)
	if err != nil {
		return nil, err
	}
	log, err := surveyLog(dir)
	if err != nil {
		return nil, err
	}
	for _, span := range log.spans {
		report.Entries += span.last - span.first + 1
	}
	if n := len(log.spans); n > 0 {
		report.FirstIndex, report.LastIndex = log.spans[0].first, log.spans[n-1].last
		report.WholeFrom = log.spans[n-1].first
	}
	report.Term = log.term
	report.Empty = log.term == 0 && !log.hasVote && len(log.spans) == 0 && len(snapshots) == 0
	if err := coverState(dir, log, snapshots, report); err != nil {
		return nil, err
	}
	return &surveyed{report, snapshots, unfinished}, nil
}

// coverState checks that the log and the newest whole snapshot leave no gap, and that no entry which this node
// acknowledged is lost with a damaged snapshot.
func coverState(dir string, log *logSummary, snapshots []*snapshotFound, report *Report) error {
	path := filepath.Join(dir, raftFile)
	if log.files != nil {
		path = filepath.Join(dir, logDir)
	}
	for _, found := range snapshots {
		if found.damage == "" {
			report.Snapshots++
			report.SnapshotIndex = max(report.SnapshotIndex, found.index)
		}
	}
	reach := report.SnapshotIndex // the index up to which the state can be rebuilt
	for _, span := range log.spans {
		if span.last <= report.SnapshotIndex {
			continue
		}
		if span.first > reach+1 {
			return damaged(path, fmt.Sprintf("entries %d to %d are missing: the newest whole snapshot ends at %d "+
				"and the log continues at %d%s", reach+1, span.first-1, report.SnapshotIndex, span.first,
				damageList(snapshots)))
		}
		reach = span.last
	}
	for _, found := range snapshots {
		if found.damage != "" && found.index > reach {
			return damaged(found.path, fmt.Sprintf("%s; what else is here ends at entry %d, it reached %d",
				found.damage, reach, found.index))
		}
	}
	switch {
	case log.term < log.lastTerm:
		return damaged(filepath.Join(dir, raftFile), fmt.Sprintf("its log ends in term %d but the stored term is %d",
			log.lastTerm, log.term))
	case log.term == 0 && len(snapshots) > 0:
		return damaged(filepath.Join(dir, raftFile),
			"it is missing or empty although snapshots exist, so the votes are lost")
	}
	return nil
}

func damageList(snapshots []*snapshotFound) string {
	text := ""
	for _, found := range snapshots {
		if found.damage != "" {
			text += fmt.Sprintf("; snapshot %s: %s", filepath.Base(found.path), found.damage)
		}
	}
	return text
}

// surveyLog scans the log and the values of a data directory, and checks every entry. A missing raft.db, or one that a
// crash during creation left empty, is an empty log; then there are no files of a log.
func surveyLog(dir string) (found *logSummary, err error) {
	path := filepath.Join(dir, raftFile)
	defer boltfile.FaultsPanic()()
	defer guardDamage(path, &err)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && info.Size() == 0) {
		return &logSummary{}, noFiles(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("look at raft log: %w", err)
	}
	if err := boltfile.Check(path, damaged); err != nil {
		if err = checkOwnPages(path, err); err != nil {
			return nil, err
		}
	}
	found = &logSummary{}
	made, err := surveyKeys(path, found)
	if err == nil && !made {
		err = noFiles(dir)
	}
	if err != nil || !made {
		return found, err
	}
	store, err := openToRead(path)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	if err := surveyValues(store, found); err != nil {
		return nil, damaged(path, err.Error())
	}
	head, moved, err := readHead(store)
	switch {
	case err != nil:
		return nil, damaged(path, err.Error())
	case moved && len(found.spans) > 0:
		return nil, damaged(path, "it holds a log, and the head of another")
	case moved:
		return found, surveyFiles(dir, head, found)
	case len(found.spans) == 0:
		return found, noFiles(dir)
	}
	return found, surveyEntries(path, store, found)
}

// noFiles rejects files of a log whose raft.db is gone.
func noFiles(dir string) error {
	holds, err := wal.HoldsEntries(filepath.Join(dir, logDir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && holds:
		return damaged(filepath.Join(dir, raftFile),
			"it is missing or empty although a log exists, so the votes are lost")
	}
	return err
}

// surveyFiles checks a log in files of its own.
func surveyFiles(dir string, head wal.Head, found *logSummary) (err error) {
	if found.files, err = wal.Scan(filepath.Join(dir, logDir), head); err != nil {
		return describeFault(dir, err)
	}
	for _, span := range found.files.Spans {
		found.spans = append(found.spans, logSpan{span.First, span.Last})
	}
	found.lastTerm = found.files.LastTerm
	return nil
}

// surveyEntries checks a log in raft.db.
func surveyEntries(path string, store *raftboltdb.BoltStore, found *logSummary) error {
	var entry raft.Log
	for _, span := range found.spans {
		found.lastTerm = 0 // entries that an installed snapshot replaced may be of a later term
		for index := span.first; index <= span.last; index++ {
			if err := readEntry(sealedLog{store}, index, &entry); err != nil {
				return damaged(path, err.Error())
			}
			if entry.Term < found.lastTerm {
				return damaged(path, fmt.Sprintf("entry %d has term %d after term %d",
					index, entry.Term, found.lastTerm))
			}
			found.lastTerm = entry.Term
		}
	}
	return nil
}

// checkOwnPages checks pages that appeared damaged a second time, while holding the file's lock: pages read while
// another process writes them appear damaged but are not. Otherwise an operator might move a healthy node's data away.
func checkOwnPages(path string, seen error) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: raftFileLock})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return openRefusal(path, err)
	case err != nil:
		return seen
	}
	defer db.Close()
	return boltfile.Check(path, damaged)
}

// surveyKeys collects the indexes in the log, and reports whether its buckets were ever created.
func surveyKeys(path string, found *logSummary) (made bool, err error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: raftFileLock})
	if err != nil {
		return false, openRefusal(path, err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		logs, conf := tx.Bucket([]byte("logs")), tx.Bucket([]byte("conf"))
		if made = logs != nil && conf != nil; !made {
			if tx.ID() > bucketsMadeBy {
				return damaged(path, "the bucket of the log or of the votes is missing")
			}
			return nil
		}
		if conf.Get(keySpaced) != nil {
			return unreleased(path)
		}
		// The checksums include the keys: under a flipped key, the vote would count as never given.
		if err := conf.ForEach(func(key, sealed []byte) error {
			if _, err := openValue(key, sealed); err != nil {
				return damaged(path, fmt.Sprintf("the stored value %.40q does not match its checksum", key))
			}
			return nil
		}); err != nil {
			return err
		}
		return logs.ForEach(func(key, _ []byte) error {
			if len(key) != 8 {
				return damaged(path, fmt.Sprintf("the log has a key of %d bytes", len(key)))
			}
			index := binary.BigEndian.Uint64(key)
			n := len(found.spans)
			switch {
			case index == 0 || n > 0 && index <= found.spans[n-1].last:
				return damaged(path, fmt.Sprintf("index %d is out of order", index))
			case n > 0 && index == found.spans[n-1].last+1:
				found.spans[n-1].last = index
			default:
				found.spans = append(found.spans, logSpan{index, index})
			}
			return nil
		})
	})
	return made, err
}

// holdsState reports whether raft.db holds a term, a vote or an entry, or the head of a log with one; an unreadable file
// counts as holding one.
func holdsState(path string) (holds bool) {
	defer boltfile.FaultsPanic()()
	defer func() {
		if recover() != nil {
			holds = true
		}
	}()
	if boltfile.Check(path, damaged) != nil {
		return true
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: raftFileLock})
	if err != nil {
		return true
	}
	defer db.Close()
	errStop := errors.New("enough")
	_ = db.View(func(tx *bbolt.Tx) error {
		holds = tx.ID() > bucketsMadeBy && (tx.Bucket([]byte("logs")) == nil || tx.Bucket([]byte("conf")) == nil)
		return tx.ForEach(func(_ []byte, bucket *bbolt.Bucket) error {
			return bucket.ForEach(func(key, sealed []byte) error {
				if bytes.Equal(key, keyLog) {
					value, err := openValue(keyLog, sealed)
					head, broken := decodeHead(value)
					holds = holds || errors.Join(err, broken) != nil || head.Mark.Index > 0
					return nil
				}
				holds = true
				return errStop
			})
		})
	})
	return holds
}

// surveyValues reads the term and the vote.
func surveyValues(store raft.StableStore, found *logSummary) error {
	probe := &stableStore{inner: store, writer: &writer{opts: Options{Fatal: func(error) {}}}}
	vote, err := probe.Get(keyVote)
	if err == nil {
		_, _, err = decodeVote(vote)
		found.hasVote = true
	}
	if err != nil && !isNotFound(err) {
		return err
	}
	if found.term, err = probe.getUint64(keyCurrentTerm); err != nil && !isNotFound(err) {
		return err
	}
	return nil
}
