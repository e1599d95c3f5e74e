package fault

import (
	"errors"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// TestRot_oneAtATime: no node rots while another is not repaired.
func TestRot_oneAtATime(t *testing.T) {
	t.Parallel()
	k, s := &Cluster{rec: check.NewRecorder(check.Monotonic(), 1)}, &Server{}
	if !k.beginRot() || k.beginRot() {
		t.Fatal("two nodes rot at once")
	}
	s.rotten.suspect()
	s.rotten.acquit()
	if err := k.cure(s); err != nil || !k.beginRot() {
		t.Errorf("no node rots though the last one is sound: %v", err)
	}
}

// TestRot_votes: a newcomer has taken the place only once it votes and the old id is gone.
func TestRot_votes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes []rota.NodeStatus
		want  bool
	}{
		"it votes": {[]rota.NodeStatus{{ID: "n1", Voter: true}, {ID: "n4", Voter: true, Healthy: true}}, true},
		"no vote yet": {[]rota.NodeStatus{{ID: "n1", Voter: true, Healthy: true}, {ID: "n4", Healthy: true}},
			false}, "not healthy": {[]rota.NodeStatus{{ID: "n4", Voter: true}}, false},
		"no member":         {[]rota.NodeStatus{{ID: "n1", Voter: true, Healthy: true}}, false},
		"the old is member": {[]rota.NodeStatus{{ID: "n4", Voter: true, Healthy: true}, {ID: "n3"}}, false},
	} {
		if got := votes(&rota.ClusterStatus{Nodes: c.nodes}, "n4", "n3"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestRot_scrubs: a node is sound after two passes of one life that found nothing.
func TestRot_scrubs(t *testing.T) {
	t.Parallel()
	type step struct {
		passes, damaged float64
		err             error
	}
	down := errors.New("connection refused")
	for name, c := range map[string]struct {
		steps []step
		want  bool
	}{
		"two clean":           {[]step{{passes: 0}, {passes: 1}, {passes: 2}}, true},
		"one":                 {[]step{{passes: 3}, {passes: 4}}, false},
		"damage on the way":   {[]step{{passes: 0}, {passes: 1, damaged: 2}, {passes: 2, damaged: 2}}, false},
		"clean after damage":  {[]step{{passes: 0}, {passes: 1, damaged: 2}, {passes: 3, damaged: 2}}, true},
		"another life":        {[]step{{passes: 0}, {passes: 1}, {err: down}, {passes: 2}}, false},
		"an unseen new start": {[]step{{passes: 5}, {passes: 0}, {passes: 1}}, false},
	} {
		var s scrubs
		got := false
		for _, at := range c.steps {
			got = s.saw(at.passes, at.damaged, at.err)
		}
		if got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
