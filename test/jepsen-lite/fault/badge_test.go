package fault

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// A call belongs to the token that all of it presented; one that is refused for a token which was replaced meanwhile
// has no outcome.
func TestBadge_Done(t *testing.T) {
	t.Parallel()
	rec := check.NewRecorder(check.Monotonic(), 10)
	b := &Badge{Holder: "producer-1", path: filepath.Join(t.TempDir(), "token")}
	put := func(token string) {
		t.Helper()
		if err := b.put(token); err != nil {
			t.Fatal(err)
		}
	}
	put("rota_first_secret")
	refused := rota.Refusef(rota.KindUnauthenticated, "credential", "it does not count")
	call := func(meanwhile func()) check.Op {
		op := check.Op{Func: check.OpSubmit, Shown: b.ID(), Invoke: rec.Now()}
		meanwhile()
		return b.Done(rec, op, refused)
	}
	if op := call(func() {}); op.Shown != "first" || op.Outcome != check.Unknown {
		t.Errorf("before the revocation: %+v", op)
	}
	rec.Revoked("first", rec.Now())
	if op := call(func() {}); op.Shown != "first" || op.Outcome != check.Refused {
		t.Errorf("after it: %+v", op)
	}
	if op := call(func() { put("rota_second_secret") }); op.Shown != "" || op.Outcome != check.Unknown {
		t.Errorf("replaced meanwhile: %+v", op)
	}
	if e := (Entrance{Token: b.path}); e.Shown() != "second" {
		t.Errorf("another process shows %q", e.Shown())
	}
	if op := (*Badge)(nil).Done(rec, check.Op{}, errors.New("lost")); op.Outcome != check.Unknown ||
		(*Badge)(nil).ID() != "" {
		t.Errorf("an open cluster: %+v", op)
	}
}
