package check

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

func TestGrowthBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"files", "growth", func(s *story) { s.h.Weights[1].Files += 1_000 }},
		{"goroutines", "growth", func(s *story) { s.h.Weights[3].Goroutines += 10_000 }},
	})
	spares(t, []plant{
		{"connections_of_users", "growth", func(s *story) { s.h.Weights[1].Files += 50 }},
		{"shrinks", "growth", func(s *story) { s.h.Weights[1].Files, s.h.Weights[1].Goroutines = 10, 50 }},
	})
	s := goodStory()
	s.h.Weights = s.h.Weights[:3]
	if u := Judge(s.h).Undecided; len(u) != 2 {
		t.Errorf("n2 was weighed once, n3 never; undecided: %v", u)
	}
}

func TestLogsBite(t *testing.T) {
	t.Parallel()
	log := func(node string, last uint64) NodeLog {
		l := NodeLog{node: node, first: 1, last: last, sums: make(map[uint64]uint64)}
		for i := uint64(1); i <= last; i++ {
			l.sums[i] = i * 7
		}
		return l
	}
	with := func(change func(logs []NodeLog)) func(s *story) {
		return func(s *story) {
			logs := []NodeLog{log("n1", 20), log("n2", 20), log("n3", 20)}
			change(logs)
			s.h.Logs = CompareLogs(logs, 10)
		}
	}
	bites(t, []plant{
		{"another_entry", "logs", with(func(l []NodeLog) { l[1].sums[5]++ })},
		{"ends_before_what_was_committed", "logs", with(func(l []NodeLog) { l[1] = log("n2", 9) })},
		{"unreadable", "logs", with(func(l []NodeLog) { l[1] = NodeLog{node: "n2", err: errors.New("damaged")} })},
		{"not_read", "logs", func(s *story) { s.h.Logs = s.h.Logs[:2] }},
	})
	spares(t, []plant{
		{"not_committed_yet", "logs", with(func(l []NodeLog) { l[1].sums[11]++ })},
		{"gap_of_a_snapshot", "logs", with(func(l []NodeLog) { delete(l[1].sums, 5) })},
		{"shorter_at_its_old_end", "logs", with(func(l []NodeLog) { l[1].first = 8 })},
	})
	if l := CompareLogs([]NodeLog{log("n1", 20), log("n2", 20)}, 10); l[1].Compared != 10 {
		t.Errorf("%d entries of 10 were compared", l[1].Compared)
	}
	s := goodStory()
	s.h.Logs = nil
	if u := Judge(s.h).Undecided; len(u) != 1 {
		t.Errorf("no log was read; undecided: %v", u)
	}
}

// spacedLog returns a file with the entries 1, 2 and 5 whose log is spaced from 2 on.
func spacedLog(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "raft.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(func(tx *bbolt.Tx) error {
		entries, err := tx.CreateBucket([]byte("logs"))
		conf, failed := tx.CreateBucket([]byte("conf"))
		if err := errors.Join(err, failed, conf.Put([]byte("rota.spaced.1"), append(binary.BigEndian.AppendUint64(nil, 2), "seal"...))); err != nil {
			return err
		}
		for key, data := range map[uint64]string{1: "x", 2: "x", 3: "room", 4: "room", 26: "x"} {
			err = errors.Join(err, entries.Put(binary.BigEndian.AppendUint64(nil, key), []byte(data)))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReadLog reads a file in the format of docs/reference/formats.md.
func TestReadLog(t *testing.T) {
	t.Parallel()
	write := func(data string) string {
		path := filepath.Join(t.TempDir(), "raft.db")
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Update(func(tx *bbolt.Tx) error {
			entries, err := tx.CreateBucket([]byte("logs"))
			for _, i := range []uint64{1, 2, 5} { // as after an installed snapshot
				err = errors.Join(err, entries.Put(binary.BigEndian.AppendUint64(nil, i), []byte(data)))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b, c := ReadLog("n1", write("x")), ReadLog("n2", write("x")), ReadLog("n3", write("y"))
	got := CompareLogs([]NodeLog{a, b, c}, 5)
	if a.first != 1 || a.last != 5 || got[1].Compared != 3 || len(got[1].Differs) != 0 || len(got[2].Differs) != 3 {
		t.Errorf("%+v", got)
	}
	d := ReadLog("n5", spacedLog(t))
	if got := CompareLogs([]NodeLog{a, d}, 5); d.first != 1 || d.last != 5 || got[1].Compared != 3 || len(got[1].Differs) != 0 {
		t.Errorf("with spaces from 2 on: %+v", got)
	}
	if l := ReadLog("n4", filepath.Join(t.TempDir(), "none")); l.err == nil {
		t.Error("a log that is not there was read")
	}
}
