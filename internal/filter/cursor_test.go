package filter

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// A cursor is read back as it was, of the same filter in the same cluster alone, and no byte of
// it may change.
func TestCursor(t *testing.T) {
	t.Parallel()
	home, f := Origin{"c1", 3}, rota.JobFilter{Queue: "mail", Where: "age>1h", State: rota.JobDead}
	c := Cursor{Part: 2, Clock: 77, Jobs: 5, Ends: 1 << 60, At: 4, Sub: 9}
	text := c.Text(home, &f)
	if got, err := ReadCursor(text, home, &f); err != nil || got != c {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := ReadCursor(text, home, &rota.JobFilter{Queue: "mail", Where: "age>1h", State: rota.JobDead, Limit: 5,
		Count: true}); err != nil {
		t.Error(err)
	}
	refused := func(text string, o Origin, f rota.JobFilter, want string) {
		t.Helper()
		if _, err := ReadCursor(text, o, &f); rota.KindOf(err) != rota.KindInvalid ||
			rota.ErrorOf(err).Subject != "cursor" || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: got %v, want %q", text, err, want)
		}
	}
	refused(text, Origin{"c2", 3}, f, "another cluster")
	refused(text, Origin{"c1", 4}, f, "restored")
	for _, other := range []rota.JobFilter{{}, {Queue: "mail", Where: "age>1h"},
		{Queue: "mai", Tenant: "l", Where: "age>1h", State: rota.JobDead},
		{Queue: "mail", Type: "x", Where: "age>1h", State: rota.JobDead}} {
		refused(text, home, other, "another filter")
	}
	for _, made := range []string{"x", "live/j1", text[1:], text + "A", strings.Repeat("A", len(text)),
		strings.Repeat("\n", len(text)), strings.Repeat("x", 1<<20)} {
		refused(made, home, f, "not one that a page returned")
	}
	raw, _ := base64.RawURLEncoding.DecodeString(text)
	for i := range raw {
		raw[i] ^= 1
		refused(base64.RawURLEncoding.EncodeToString(raw), home, f, "not one that a page returned")
		raw[i] ^= 1
	}
}
