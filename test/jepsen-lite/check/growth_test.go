package check

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
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

// TestReadLog reads a file in the format of docs/reference/formats.md.
func TestReadLog(t *testing.T) {
	t.Parallel()
	write := func(data string) string {
		dir := t.TempDir()
		file := make([]byte, 32)
		for _, index := range []uint64{1, 2, 5} { // as after an installed snapshot
			file = binary.LittleEndian.AppendUint64(file, index)
			file = binary.LittleEndian.AppendUint64(file, 3)
			file = binary.LittleEndian.AppendUint32(file, uint32(len(data)))
			file = append(file, "seal"...)
			file = append(file, 2, 0, 1, 1) // two bytes of extensions, a type, the first of its batch
			file = append(file, "salt"...)
			file = append(append(file, "ex"...), data...)
			file = append(file, make([]byte, (8-len(file)%8)%8)...)
		}
		if err := os.WriteFile(filepath.Join(dir, "00000000000000000001.wal"), append(file, "torn"...),
			0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	a, b, c := ReadLog("n1", write("x")), ReadLog("n2", write("x")), ReadLog("n3", write("y"))
	got := CompareLogs([]NodeLog{a, b, c}, 5)
	if a.first != 1 || a.last != 5 || got[1].Compared != 3 || len(got[1].Differs) != 0 || len(got[2].Differs) != 3 {
		t.Errorf("%+v", got)
	}
	if l := ReadLog("n4", filepath.Join(t.TempDir(), "none")); l.err == nil {
		t.Error("a missing log was read")
	}
}
