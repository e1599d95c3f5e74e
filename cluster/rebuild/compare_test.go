package rebuild

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/logs"
)

func TestDigests_marks(t *testing.T) {
	t.Parallel()
	var r Digests
	due := r.Marks()
	told := func() (n int) {
		for {
			select {
			case <-due:
				n++
			default:
				return n
			}
		}
	}
	put := func(from, to rota.Index) {
		for i := from; i <= to; i++ {
			r.Put(i, rota.Digest{}, 0)
		}
	}
	put(1, compareEvery-1)
	if told() != 0 || r.Marked() != 0 {
		t.Error("reported too early")
	}
	put(compareEvery, compareEvery)
	if told() != 1 || r.Marked() != 0 {
		t.Error("the first mark is not reported, or it is to be compared before others have passed it")
	}
	put(compareEvery+1, 2*compareEvery-1)
	r.Put(2*compareEvery+1, rota.Digest{}, 0) // the entry in between was raft's own
	if told() != 1 || r.Marked() != compareEvery {
		t.Errorf("the mark before the latest is %d", r.Marked())
	}
	put(2*compareEvery+2, 4*compareEvery+1)
	if told() != 1 || r.Marked() != 3*compareEvery+1 {
		t.Errorf("the mark before the latest is %d, and two marks must be reported once", r.Marked())
	}
	r.Clear()
	if r.Marked() != 0 {
		t.Error("a mark outlives its digests")
	}
}

// TestCompare_betweenTheSeconds: two of three voters differ, one of which answers each second and not in between. A
// comparison without an answer neither ends nor counts a doubt.
func TestCompare_betweenTheSeconds(t *testing.T) {
	t.Parallel()
	stopped := make(chan error, 1)
	var digests Digests
	rb := New(Host{Log: slog.New(slog.DiscardHandler), Lines: &logs.Limiter{}, Node: "n1",
		State: State{Digests: &digests},
		Fatal: func(err error) { stopped <- err }})
	servers := []raft.Server{{ID: "n1"}, {ID: "n2"}, {ID: "n3"}}
	other := rota.Digest{Hi: 2}
	differs := map[rota.NodeID]Answer{"n2": {Digest: &other}, "n3": {Err: errors.New("no answer")}}
	digests.Put(7, rota.Digest{Hi: 1}, 0)
	for range maxDoubts - 1 {
		rb.Compare(7, servers, differs, false)
		rb.Compare(7, servers, differs, true)
		rb.Compare(7, servers, nil, true)
		rb.Compare(6, servers, nil, true) // an index whose digest this node no longer has
	}
	if len(stopped) > 0 {
		t.Fatalf("it stopped before %d doubts: %v", maxDoubts, <-stopped)
	}
	rb.Compare(7, servers, differs, false)
	if len(stopped) == 0 {
		t.Errorf("it continues after %d seconds of doubt", maxDoubts)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	d := func(s string) (list []rota.Digest) {
		for _, c := range s {
			list = append(list, rota.Digest{Lo: uint64(c)})
		}
		return list
	}
	for _, c := range []struct {
		own, told string
		voters    int
		want      agreement
	}{
		{"a", "a", 1, agreeHeld},
		{"a", "aa", 3, agreeHeld},
		{"a", "aab", 3, agreeHeld},
		{"b", "aab", 3, agreeOutside},
		{"b", "aa", 3, agreeOutside}, // a non-voter
		{"a", "a", 3, agreeUnknown},
		{"a", "ab", 3, agreeDoubt},
		{"a", "abc", 3, agreeSplit},
		{"a", "ab", 2, agreeSplit},
		{"a", "aabb", 5, agreeDoubt},
		{"a", "aabbc", 5, agreeSplit},
		{"a", "aabc", 5, agreeDoubt},
		{"c", "aaac", 5, agreeOutside},
		{"b", "a", 3, agreeDoubt}, // a non-voter and one voter
		{"a", "", 3, agreeUnknown},
	} {
		got, right := judge(d(c.own)[0], d(c.told), c.voters)
		if got != c.want || got == agreeOutside && right != d("a")[0] {
			t.Errorf("own %s among %q of %d: got %d, %v, want %d", c.own, c.told, c.voters, got, right, c.want)
		}
	}
}
