package check

import (
	"strings"
	"testing"
)

const second = int64(1e9)

// TestCheckCrash_failStop has nodes end during faults of their disks: only those that report the fault may.
func TestCheckCrash_failStop(t *testing.T) {
	const hangs = `msg="this node stops" err="a write did not return within 5s: the disk hangs."`
	fault := Fault{Nemesis: "hung-fsync", Targets: []string{"n1"}, From: 10 * second, To: 20 * second}
	for _, c := range []struct {
		name  string
		crash Crash
		want  int
	}{
		{"in its fault, with words", Crash{Node: "n1", At: 21 * second, Exit: "exit status 1", Log: hangs}, 0},
		{"without words", Crash{Node: "n1", At: 15 * second, Exit: "exit status 1", Log: "bye"}, 1},
		{"with another fault's words", Crash{Node: "n1", At: 15 * second, Exit: "exit status 1", Log: "is damaged"}, 1},
		{"a panic", Crash{Node: "n1", At: 15 * second, Exit: "exit status 1", Log: "\npanic: " + hangs}, 1},
		{"a signal", Crash{Node: "n1", At: 15 * second, Exit: "signal: segmentation fault", Log: hangs}, 1},
		{"another node", Crash{Node: "n2", At: 15 * second, Exit: "exit status 1", Log: hangs}, 1},
		{"before the fault", Crash{Node: "n1", At: 9 * second, Exit: "exit status 1", Log: hangs}, 1},
		{"long after it", Crash{Node: "n1", At: 40 * second, Exit: "exit status 1", Log: hangs}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := checkCrash(newView(&History{Faults: []Fault{fault}, Crashes: []Crash{c.crash}}))
			if len(found) != c.want {
				t.Errorf("%d violations, want %d: %v", len(found), c.want, found)
			}
		})
	}
}

// TestCheckCrash_stuck has a node that does not end: its disk may hold it back.
func TestCheckCrash_stuck(t *testing.T) {
	h := &History{Stuck: []Crash{{Node: "n1", At: 12 * second, Exit: "25s"}}}
	if found := checkCrash(newView(h)); len(found) != 1 {
		t.Errorf("a stuck node is %v", found)
	}
	h.Faults = []Fault{{Nemesis: "hung-fsync", Targets: []string{"n1"}, From: 10 * second, To: 20 * second}}
	if found := checkCrash(newView(h)); len(found) != 0 {
		t.Errorf("a node with a hung disk is %v", found)
	}
}

// TestCheckCrash_noDisks reports which faults were not tried.
func TestCheckCrash_noDisks(t *testing.T) {
	verdict := Judge(&History{Network: "namespaces", NoDisks: "/dev/fuse is not there"})
	if all := strings.Join(verdict.Undecided, "\n"); !strings.Contains(all, "no disk could be made to fail") {
		t.Errorf("undecided are only %q", all)
	}
}

func TestCheckDisk(t *testing.T) {
	fault := Fault{Nemesis: "hung-fsync", Targets: []string{"n1"}, From: 10 * second, To: 40 * second}
	samples := func(next string, at int64) []Sample {
		return []Sample{{At: 9 * second, Leader: "n1"}, {At: 12 * second, Leader: "n1"}, {At: at, Leader: next}}
	}
	for _, c := range []struct {
		name    string
		faults  []Fault
		samples []Sample
		want    int
	}{
		{"in time", []Fault{fault}, samples("n2", 25*second), 0},
		{"too late", []Fault{fault}, samples("n2", 35*second), 1},
		{"never", []Fault{fault}, samples("n1", 60*second), 1},
		{"a follower", []Fault{{Nemesis: "hung-fsync", Targets: []string{"n3"}, From: 10 * second, To: 40 * second}},
			samples("n1", 60*second), 0},
		{"a short one", []Fault{{Nemesis: "hung-fsync", Targets: []string{"n1"}, From: 10 * second, To: 14 * second}},
			samples("n1", 60*second), 0},
		{"others were down", []Fault{fault, {Nemesis: "kill-one", Targets: []string{"n2"}, From: 20 * second,
			To: 30 * second}}, samples("n2", 35*second), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := checkDisk(newView(&History{Faults: c.faults, Samples: c.samples}))
			if len(found) != c.want {
				t.Errorf("%d violations, want %d: %v", len(found), c.want, found)
			}
		})
	}
}
