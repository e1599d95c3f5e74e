package fsm

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestFrozenStays freezes a state between any two entries of a job's life: its content never changes, though rows that
// no frozen copy holds are changed in place.
func TestFrozenStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.worker("w", 1)
	var frozen []*Frozen
	var told []string
	tell := func(f *Frozen) (all string) {
		if err := f.Records(func(_ byte, rec []byte) error { all += string(rec); return nil }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	freeze := func() {
		frozen = append(frozen, b.Freeze())
		told = append(told, tell(frozen[len(frozen)-1]))
	}
	freeze()
	l := b.acked("j")
	for i := range 3 {
		if i != 1 { // the second renewal changes the first's row in place
			freeze()
		}
		b.ok(verb(rota.VerbRenew, l, func(c *peer.LeaseCommand) { c.Ordinal = int32(i + 1) }))
	}
	freeze()
	b.ok(verb(rota.VerbComplete, l))
	for i, f := range frozen {
		if tell(f) != told[i] {
			t.Errorf("the %d. frozen state has changed", i+1)
		}
		if _, err := f.Thaw(); err != nil {
			t.Errorf("the %d. frozen state: %v", i+1, err)
		}
	}
}

// TestEditInPlace checks that a row that no frozen copy holds is not copied.
func TestEditInPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.worker("w", 1)
	l := b.acked("j")
	before := b.leasing.leases.Get(string(l.ID[:]))
	b.ok(verb(rota.VerbRenew, l, func(c *peer.LeaseCommand) { c.Ordinal = 1 }))
	if b.leasing.leases.Get(string(l.ID[:])) != before {
		t.Error("the row was copied though it has no other holder")
	}
	b.Freeze()
	b.ok(verb(rota.VerbRenew, l, func(c *peer.LeaseCommand) { c.Ordinal = 2 }))
	if b.leasing.leases.Get(string(l.ID[:])) == before {
		t.Error("the row was changed where a frozen copy holds it")
	}
}
