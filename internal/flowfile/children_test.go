package flowfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// Children follow one another, on one line or on several, as workflow files describe nodes.
func TestChildren(t *testing.T) {
	t.Parallel()
	g, err := Children([]byte("\xef\xbb\xbf"+`{"id": "a", "type": "count", "payload": "x\ny", "priority": 2}
{"id": "b", "type": "count", "parents": ["a", "list"]} {"detached": true}
{
  "id": "ok",
  "gate": {"timeout_ms": 1000}
}`), "list")
	if err != nil || g == nil || !g.Detached || len(g.Children) != 3 {
		t.Fatalf("%v, %+v", err, g)
	}
	a, b, gate := &g.Children[0], &g.Children[1], &g.Children[2]
	if a.ID != "a" || a.Type != "count" || string(a.Payload) != "x\ny" || a.Priority != 2 ||
		b.Priority != rota.DefaultPriority || b.Queue != "" ||
		fmt.Sprint(b.Parents) != "[a list]" || gate.Gate == nil || gate.Gate.Timeout.Milliseconds() != 1000 {
		t.Errorf("%+v", g.Children)
	}
	if err := g.CheckShape("list"); err != nil {
		t.Error(err)
	}
	for _, none := range []string{"", "\n \n"} {
		if g, err := Children([]byte(none), "list"); g != nil || err != nil {
			t.Errorf("%q: %v, %v", none, g, err)
		}
	}
}

// Each fault is named with its line, several faults at once, and no child is accepted.
func TestChildren_faults(t *testing.T) {
	t.Parallel()
	many := strings.Builder{}
	for i := range rota.MaxChildren + 1 {
		fmt.Fprintf(&many, `{"id": "c%d", "type": "count"}`+"\n", i)
	}
	for text, want := range map[string][]string{
		`{"id": "a"}`:                              {`line 1: child "a": type is missing`},
		"{}":                                       {`line 1: child 1: id is missing`},
		"\n\n" + `{"id": "a", "typ": "x"}`:         {`line 3: child "a": unknown field "typ": did you mean "type"?`},
		`{"id": "a", "type": 7}`:                   {`line 1: child "a": type: got a number, want a string: put it in quotes`},
		`{"id": "a b", "type": "x"}`:               {`line 1: child "a b": `},
		`{"id": "list", "type": "x"}`:              {`line 1: child "list": this is the id of the node that completes`},
		`{"id": "a", "type": "x", "tenant": "t"}`:  {`line 1: child "a": tenant "t" is refused`},
		`{"id": "a", "type": "x", "priority": 99}`: {`line 1: child "a": `, "priority"},
		`{"id": "a", "type": "x"}` + "\n" +
			`{"id": "a", "type": "x"}`: {`line 2: child "a": duplicate: first in line 1`},
		`{"id": "a", "type": "x", "parents": ["b"]}` + "\n" + `{"id": "b", "type": "x", "parents": ["b"]}`: {
			`line 1: child "a": parent "b" is neither "list", the node that completes, nor a child before`,
			`line 2: child "b": parent "b"`},
		`{"id": "g", "gate": {"timeout_ms": -1}}`: {`line 1: child "g": `, "timeout_ms"},
		`[{"id": "a", "type": "x"}]`:              {`line 1: want an object`},
		`"a"`:                                     {`line 1: want an object`},
		`{"id": "a", "type": "x"}` + "\n" + `{"id": "b", "ty`:         {"line 2: not JSON: unexpected EOF"},
		`{"id": "a", "type": "x"}` + "\n" + `{"id": "b" "type": "x"}`: {"line 2: not JSON: "},
		"\x00": {"line 1: not JSON: "},
		`{"id": "a", "type": "x", "detached": true}`:              {`line 1: "detached" applies to all children`},
		`{"detached": false}` + "\n" + `{"id": "a", "type": "x"}`: {`line 1: "detached" applies to all children`},
		`{"detached": true}`: {`line 1: detached is set without children`},
		`{"detached": true}{"id": "a", "type": "x"}` + "\n" +
			`{"detached": true}`: {`line 2: duplicate "detached": first in line 1`},
		many.String(): {fmt.Sprintf("line %d: too many children: got child 501, maximum 500",
			rota.MaxChildren+1)},
		strings.Repeat("{}\n", 2*MaxFaults): {fmt.Sprintf("line %d: child %d: id is missing", MaxFaults, MaxFaults)},
	} {
		g, err := Children([]byte(text), "list")
		var faults Faults
		if g != nil || !errors.As(err, &faults) || len(faults) > MaxFaults {
			t.Errorf("%.60q: %v, %v", text, g, err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%.60q: %v lacks %q", text, err, part)
			}
		}
	}
}

// Children accepts the same input as a completion; no input makes it panic.
func FuzzChildren(f *testing.F) {
	for _, seed := range []string{`{"id":"a","type":"x"}`, `{"id":"b","type":"x","parents":["n"]}{"detached":true}`,
		`{"id":"g","gate":{}}`, "[", "{", "null",
		`{"detached":`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := Children([]byte(text), "n")
		if (g != nil) && err != nil {
			t.Fatal("children with a fault")
		}
		if g == nil {
			return
		}
		if err := g.CheckShape("n"); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
