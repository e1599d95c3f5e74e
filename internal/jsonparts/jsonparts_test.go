package jsonparts

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzParts checks that the same parts are found as by encoding/json.
func FuzzParts(f *testing.F) {
	for _, text := range []string{`{}`, `[]`, ` { "a" : [1, 2] , "b":{"c":"}\\\""} } `,
		`[1,"a,]", {"x":[ ]} ,null, -1.5e3]`, `{"a":1,"a":2}`, `{"\u0061":true}`,
		`"text"`, `"\\"`, `12`, `-0`, `007`, `9223372036854775808`, `{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":}`, `[`,
		`[1`, `[1,`, `{,}`, `[,]`, `"`, "\"\xff\"", "\"\x01\""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := make(map[string]string)
		object := Members(text, func(name, value []byte) { got[Name(name)] = string(value) })
		var list []string
		isList := Elements(text, func(element []byte) { list = append(list, string(element)) })
		simple, isText := Text(text)
		number, isNumber := Number(text)
		if !json.Valid(text) {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); object != (err == nil && members != nil) {
			t.Fatalf("%q: an object %v, %v", text, object, err)
		}
		var elements []json.RawMessage
		if err := json.Unmarshal(text, &elements); isList != (err == nil && elements != nil) {
			t.Fatalf("%q: a list %v, %v", text, isList, err)
		}
		if object {
			if len(got) != len(members) {
				t.Fatalf("%q: %d members, want %d", text, len(got), len(members))
			}
			for name, value := range members {
				if got[name] != string(value) {
					t.Fatalf("%q: %q is %q, want %q", text, name, got[name], value)
				}
			}
		}
		if isList {
			if len(list) != len(elements) {
				t.Fatalf("%q: %d elements, want %d", text, len(list), len(elements))
			}
			for i := range list {
				if list[i] != string(elements[i]) {
					t.Fatalf("%q: element %d is %q, want %q", text, i, list[i], elements[i])
				}
			}
		}
		var s string
		if isText && (json.Unmarshal(text, &s) != nil || s != string(simple)) {
			t.Fatalf("%q is the text %q, want %q", text, simple, s)
		}
		if trimmed := bytes.TrimSpace(text); !isText && len(trimmed) == len(text) && text[0] == '"' &&
			!strings.ContainsAny(string(text), "\\") && json.Unmarshal(text, &s) == nil &&
			!strings.Contains(s, "\ufffd") {
			t.Fatalf("%q is a text without escapes", text)
		}
		var n int64
		if isNumber && (json.Unmarshal(text, &n) != nil || n != number) {
			t.Fatalf("%q is the number %d, want %d", text, number, n)
		}
	})
}
