package jsonparts

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzValid checks that Valid accepts the same texts as encoding/json.
func FuzzValid(f *testing.F) {
	for _, text := range []string{"", " ", "1", "-0.5e+10", "01", "1.", "1e", "-", "+1", ".5", "true", "tru", "nulls",
		`"a\u00e9\n"`, `"\u12"`,
		`"\x"`, "\"\n\"", `"a`, "[]", "[ ]", "{}", "[1,2]", "[1,]", "[,1]", "[1 2]", `{"a":1,"b":[{}]}`, `{"a"}`,
		`{"a":}`, `{"a":1,}`, `{1:2}`,
		"[1]]", "[[1]", "{]", "1 1", "1,2", " [ 1 , { \"a\" : null } ] ", "\"\xff\"",
		strings.Repeat("[", 50) + strings.Repeat("]", 50)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 9_000 {
			return // encoding/json has a limit on depth
		}
		if got, want := Valid(text), json.Valid(text); got != want {
			t.Fatalf("%q: %v, want %v", text, got, want)
		}
	})
}
