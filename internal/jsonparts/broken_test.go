package jsonparts

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestNotJSON checks the reasons, which are the same with every version of Go, and that Read returns them.
func TestNotJSON(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", maxLevels) + strings.Repeat("]", maxLevels)
	for text, want := range map[string]struct {
		at    int
		words string
	}{
		`{}`: {}, ` [1, "a\u00e9", null] `: {}, deep: {},
		`{"a":1`:     {6, "the JSON ends too early"},
		``:           {0, "the JSON ends too early"},
		`tru`:        {3, "the JSON ends too early"},
		`"a\`:        {3, "the JSON ends too early"},
		`1e`:         {2, "the JSON ends too early"},
		`{"a":trux}`: {8, "invalid character 'x'"},
		`{a:1}`:      {1, "invalid character 'a'"},
		`{"a":1,}`:   {7, "invalid character '}'"},
		`[1 2]`:      {3, "invalid character '2'"},
		`[01]`:       {2, "invalid character '1'"},
		`"\x"`:       {2, "invalid character 'x'"},
		`"\u12"`:     {5, "invalid character '\"'"},
		"\"a\nb\"":   {2, "invalid character '\\n'"},
		"\xff":       {0, "invalid byte 0xff"},
		"\ufeff{}":   {0, "invalid character '\\ufeff'"},
		"[" + deep:   {maxLevels, "nested deeper than 10000 levels"},
	} {
		broken := NotJSON([]byte(text))
		if want.words == "" {
			if broken != nil {
				t.Errorf("%.40q: got %v", text, broken)
			}
			continue
		}
		if broken == nil || broken.Offset != want.at || broken.Error() != want.words {
			t.Errorf("%.40q: got %+v, want %+v", text, broken, want)
			continue
		}
		var v any
		err := Read([]byte(text), &v, true)
		if early := want.at == len(text); errors.Is(err, io.ErrUnexpectedEOF) != early || !early && err.Error() != want.words {
			t.Errorf("%.40q: Read returns %v", text, err)
		}
	}
	if err := Read([]byte(`{}]`), new(any), true); !errors.Is(err, ErrMore) {
		t.Errorf("more text: %v", err)
	}
}

// FuzzNotJSON checks that NotJSON refuses the texts that encoding/json refuses, within the text.
func FuzzNotJSON(f *testing.F) {
	f.Add([]byte(`{"a":[1,tru]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		broken := NotJSON(text)
		if (broken == nil) != json.Valid(text) || broken != nil && (broken.Offset < 0 || broken.Offset > len(text)) {
			t.Fatalf("%q: %+v", text, broken)
		}
	})
}
