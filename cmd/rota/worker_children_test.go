package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// A node's command leaves children in a file; a file with a fault fails the attempt, and anything else at the file's
// path is not waited for.
func TestExecution_children(t *testing.T) {
	t.Parallel()
	const one = `{"id": "page-1", "type": "count"}`
	for name, c := range map[string]struct {
		command string
		want    int
		fault   string
	}{
		"two": {`echo '` + one +
			`' >>"$ROTA_CHILDREN"; echo '{"id": "sum", "type": "sum", "parents": ["page-1"]}' >>"$ROTA_CHILDREN"`, 2,
			""}, "none": {`true`, 0, ""},
		"removed":     {`rm "$ROTA_CHILDREN"`, 0, ""},
		"it fails":    {`echo '` + one + `' >"$ROTA_CHILDREN"; exit 3`, 0, "exit status 3"},
		"it declines": {`echo '` + one + `' >"$ROTA_CHILDREN"; exit 75`, 0, "declined"},
		"a fault": {`printf '\n{"id": "page-1"}' >"$ROTA_CHILDREN"`, 0,
			`$ROTA_CHILDREN: line 2: child "page-1": type is missing`},
		"cut off":         {`printf '{"id": "pa' >"$ROTA_CHILDREN"`, 0, "line 1: not JSON: unexpected EOF"},
		"too long":        {`head -c 2000000 /dev/zero >"$ROTA_CHILDREN"`, 0, "has more than 1048576 bytes"},
		"a pipe":          {`rm "$ROTA_CHILDREN"; mkfifo "$ROTA_CHILDREN"`, 0, "no longer a file"},
		"a directory":     {`rm "$ROTA_CHILDREN"; mkdir "$ROTA_CHILDREN"`, 0, "no longer a file"},
		"an endless file": {`ln -sf /dev/zero "$ROTA_CHILDREN"`, 0, "no longer a file"},
		"outcome a pipe": {`rm "$ROTA_OUTCOME"; mkfifo "$ROTA_OUTCOME"; exit 4`, 0,
			"exit status 4; $ROTA_OUTCOME cannot be read: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := executing(c.command+`; code=$?; echo "$ROTA_CHILDREN"; exit $code`, "")
			e.Job = "wf/list"
			output, err := e.Run(t.Context())
			if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Fatalf("got %v, want %q", err, c.fault)
			}
			switch got := e.Children; {
			case c.want == 0 && got != nil:
				t.Errorf("it has children: %+v", got)
			case c.want > 0 && (got == nil || len(got.Children) != c.want || got.Children[0].ID != "page-1"):
				t.Errorf("want %d children: %+v", c.want, got)
			}
			if path := strings.TrimSpace(string(output)); err == nil {
				if _, err := os.Lstat(path); path == "" || !os.IsNotExist(err) {
					t.Errorf("something is left of %q: %v", path, err)
				}
			}
		})
	}
	t.Run("no node", func(t *testing.T) {
		t.Parallel()
		e, _ := executing(`echo "${ROTA_CHILDREN-none}"`, "")
		if output, err := e.Run(t.Context()); err != nil || string(output) != "none\n" || e.Children != nil {
			t.Errorf("%q, %v, %+v", output, err, e.Children)
		}
	})
	if limits.MaxChildrenFile != 1048576 || rota.MaxChildren != 500 {
		t.Error("the help and the guide name the bounds")
	}
}
