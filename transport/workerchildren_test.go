package transport

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

// A worker's children are read at the edge, and rejected by field before they reach the log.
func TestCheckCommand_children(t *testing.T) {
	t.Parallel()
	of := func(list ...rota.NodeSpec) []byte {
		b, err := words.GrowthToWire(&rota.Growth{Children: list})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := of(rota.NewNodeSpec("a", "work", nil), rota.NewNodeSpec("b", "work", nil, "a", "n"))
	for _, c := range []struct {
		name, subject string
		verb          rota.LeaseVerb
		job           rota.JobID
		children      []byte
	}{
		{"good", "", rota.VerbComplete, "wf/n", good},
		{"none", "", rota.VerbComplete, "plain", nil},
		{"of a failure", "children", rota.VerbFail, "wf/n", good},
		{"of a job alone", "children", rota.VerbComplete, "plain", good},
		{"garbage", "children", rota.VerbComplete, "wf/n", []byte{0}},
		{"a parent that is not there", "children[0].parents[0]", rota.VerbComplete, "wf/n",
			of(rota.NewNodeSpec("a", "work", nil, "x"))},
		{"twice", "children[1].id", rota.VerbComplete, "wf/n",
			of(rota.NewNodeSpec("a", "work", nil), rota.NewNodeSpec("a", "work", nil))},
		{"without a type", "children[0].type", rota.VerbComplete, "wf/n", of(rota.NewNodeSpec("a", "", nil))},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			command := peer.LeaseCommand{Verb: c.verb, Lease: rota.LeaseID{1}, Job: c.job, Children: c.children}
			err := checkCommand(&command)
			switch {
			case c.subject == "" && (err != nil || (command.Growth == nil) != (c.children == nil)):
				t.Fatalf("%v, %+v", err, command.Growth)
			case c.subject != "":
				if e := rota.ErrorOf(err); e == nil || e.Kind != rota.KindInvalid || e.Subject != c.subject {
					t.Fatalf("got %v, want %q", err, c.subject)
				}
			}
		})
	}
}
