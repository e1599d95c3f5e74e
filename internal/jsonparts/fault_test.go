package jsonparts

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

type inner struct {
	Names  []string         `json:"names"`
	Counts map[string]int64 `json:"counts,omitempty"`
}

type outer struct {
	inner
	Text   string          `json:"text"`
	Small  int8            `json:"small"`
	Count  *int32          `json:"count"`
	Big    uint64          `json:"big"`
	Yes    bool            `json:"yes"`
	Part   float64         `json:"part"`
	Bytes  []byte          `json:"bytes"`
	Hex    hexText         `json:"hex"`
	Kinds  []hexText       `json:"kinds"`
	Raw    json.RawMessage `json:"raw"`
	Any    any             `json:"any"`
	Under  *inner          `json:"under"`
	Many   []inner         `json:"many"`
	hidden int
}

type hexText string

func (h *hexText) UnmarshalText(text []byte) error {
	if strings.Trim(string(text), "0123456789abcdef") != "" {
		return errors.New("not hexadecimal")
	}
	*h = hexText(text)
	return nil
}

// TestRead_namesTheFault checks the path and text of a fault: neither may depend on the version of Go.
func TestRead_namesTheFault(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"text":"a","text":"b"}`:                "text: given twice, want it once",
		`{"text":"a","t\u0065xt":"b"}`:           "text: given twice, want it once",
		`{"text":"a","TEXT":"b"}`:                "TEXT: given twice, want it once",
		`{"many":[{},{"counts":{"a":1,"a":1}}]}`: "many[1].counts.a: given twice, want it once",
		`{"any":[{"é":1,"é":2}]}`:                `any[0]."é": given twice, want it once`,
		`{"txt":1}`:                              "txt: unknown field",
		`{"a\"b":1}`:                             `"a\"b": unknown field`,
		`{"":1}`:                                 `"": unknown field`,
		`{"hidden":1}`:                           "hidden: unknown field",
		`{"under":{"name":1}}`:                   "under.name: unknown field",
		`{"text":5}`:                             "text: got a number, want a string",
		`{"hex":5}`:                              "hex: got a number, want a string",
		`{"hex":"xyz"}`:                          "hex: not hexadecimal",
		`{"kinds":["a",1]}`:                      "kinds[1]: got a number, want a string",
		`{"names":"a"}`:                          "names: got a string, want an array",
		`{"names":["a",{}]}`:                     "names[1]: got an object, want a string",
		`{"small":128}`:                          "small: got 128, want an integer from -128 to 127",
		`{"small":1.5}`:                          "small: got 1.5, want an integer",
		`{"small":"1"}`:                          "small: got a string, want an integer",
		`{"count":2147483648}`:                   "count: got 2147483648, want an integer from -2147483648 to 2147483647",
		`{"big":-1}`:                             "big: got -1, want an integer from 0 to 18446744073709551615",
		`{"yes":0}`:                              "yes: got a number, want a boolean",
		`{"part":true}`:                          "part: got a boolean, want a number",
		`{"part":1e999}`:                         "part: got 1e999, want a number",
		`{"bytes":{}}`:                           "bytes: got an object, want a string of base64",
		`{"bytes":"*"}`:                          `bytes: got "*", want a string of base64`,
		`{"under":[]}`:                           "under: got an array, want an object",
		`{"counts":{"a":"b"}}`:                   "counts.a: got a string, want an integer",
		`[]`:                                     "got an array, want an object",
		`{"text":"a"} {}`:                        ErrMore.Error(),
		`{"text":`:                               io.ErrUnexpectedEOF.Error(),
		``:                                       io.ErrUnexpectedEOF.Error(),
		`{"raw":{"a":1,"a":2},"text":"a"}`:       "<nil>",
		`{"under":null,"text":null,"count":null}`:  "<nil>",
		`{"NAMES":["a"],"part":1e3,"any":{"a":1}}`: "<nil>",
	} {
		var into outer
		err := Read([]byte(text), &into, true)
		got := "<nil>"
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestFind_placesTheFault checks the offset in a text with blanks around it.
func TestFind_placesTheFault(t *testing.T) {
	t.Parallel()
	text := []byte("\n {\"text\":\n 5 } \n")
	fault := Find(text, reflect.TypeFor[outer](), true)
	if fault == nil || fault.Offset != bytes.IndexByte(text, '5') {
		t.Errorf("got %+v, want offset %d", fault, bytes.IndexByte(text, '5'))
	}
}

// repeatsSlowly is MayRepeat by encoding/json's tokens, for exact names.
func repeatsSlowly(t *testing.T, d *json.Decoder) bool {
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	open, _ := token.(json.Delim)
	found := false
	seen := make(map[any]bool)
	for (open == '{' || open == '[') && d.More() {
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			found = found || seen[name]
			seen[name] = true
		}
		found = repeatsSlowly(t, d) || found
	}
	if open == '{' || open == '[' {
		_, _ = d.Token() // its closing bracket
	}
	return found
}

// FuzzRead checks that Read accepts the same texts as encoding/json, except for members given twice.
func FuzzRead(f *testing.F) {
	for _, text := range []string{`{}`, `[]`, `null`, `{"a":1,"b":{"a":2}}`, `{"text":"a","text":"b"}`,
		`{"raw":{"a":[{"b":1,"b":2}]}}`, `{"a":[1,{"x":1,"y":2}],"c":"}"}`,
		`{"big":1e2}`, `{"any":{"A":1,"a":2}}`, `{"many":[{"names":["x"]},{}]}`, `{"small":-0,"part":-0.5e-3}`,
		`{"bytes":"AA=="}`, `{"count":5}{`, `{"ſmall":1}`,
		`{"0":1,"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"10":1,"11":1,"12":1,"13":1,"14":1,"15":1,"16":1,"9":2}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		MayRepeat(text) // must not panic on invalid JSON
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		var want, got outer
		slow := d.Decode(&want)
		err := Read(text, &got, true)
		if slow != nil && err == nil {
			t.Fatalf("%q: accepted, want %v", text, slow)
		}
		if !json.Valid(text) {
			return
		}
		repeated := repeatsSlowly(t, json.NewDecoder(bytes.NewReader(text)))
		if repeated && !MayRepeat(text) {
			t.Fatalf("%q has a member twice", text)
		}
		fault, found := errors.AsType[*Fault](err)
		switch {
		case slow == nil && err != nil && !(found && fault.Twice):
			t.Fatalf("%q: got %v, want it accepted", text, err)
		case slow != nil && !found:
			t.Fatalf("%q: got %v, want a fault for %v", text, err, slow)
		case found && (fault.Offset < 0 || fault.Offset >= len(text)):
			t.Fatalf("%q: offset %d", text, fault.Offset)
		}
	})
}
