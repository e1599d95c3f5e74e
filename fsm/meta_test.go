package fsm

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestMeta checks data that completions add to their output (AICF §8): it is kept with the job, and beyond its bounds
// refused with the lease still open.
func TestMeta(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.leased("j", "w")
	said := func(meta map[string]string) func(*peer.LeaseCommand) {
		return func(c *peer.LeaseCommand) { c.Meta = meta }
	}
	many := make(map[string]string)
	for i := range rota.MaxLabels + 1 {
		many[fmt.Sprint(i)] = "x"
	}
	for name, meta := range map[string]map[string]string{"many": many,
		"long":   {"k": strings.Repeat("v", rota.MaxLabelBytes+1)},
		"no key": {"": "v"}, "key": {"a b": "v"}} {
		if o := b.refuses(rota.KindInvalid, "meta", verb(rota.VerbComplete, l, said(meta))); o.GetKind() == 0 {
			t.Fatal(name)
		}
	}
	if job, _ := b.View.Job("j"); job.Lease == nil {
		t.Fatalf("the lease is gone: %+v", job)
	}
	delete(many, "0")
	b.ok(verb(rota.VerbComplete, l, said(many)))
	if o := b.ok(verb(rota.VerbComplete, l, said(many))); !o.GetExisted() {
		t.Fatalf("%v", o)
	}
	if job := b.state("j", rota.JobCompleted); !maps.Equal(job.Meta, many) {
		t.Fatalf("%+v", job)
	}
	s, _ := b.View.StagedJob("j")
	if e, err := DecodeEnded(s.Append(nil)); err != nil || !maps.Equal(e.Job.Meta, many) {
		t.Fatalf("%+v, %v", e, err)
	}
}
