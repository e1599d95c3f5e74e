package rota

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rotasched/rota/internal/jsonparts"
	"github.com/rotasched/rota/internal/millis"
)

// unmarshal reads into a pointer to a value of the layout's type. Fields that the text does not have stay unchanged.
// The text is valid, as encoding/json guarantees, and is scanned once, whereas encoding/json would scan it once per
// level.
func (l *layout) unmarshal(text []byte, into any) error {
	if string(text) == "null" {
		return nil
	}
	var few [64][]byte // most types have fewer names
	given := few[:]
	if l.places > len(few) {
		given = make([][]byte, l.places)
	}
	var unknown string
	var some bool
	if !jsonparts.Members(text, func(name, value []byte) {
		slot, known := l.slots[string(name)]
		if !known {
			read := jsonparts.Name(name) // it may be written with escapes
			if slot, known = l.slots[read]; !known {
				if !some || read < unknown {
					unknown, some = read, true
				}
				return
			}
		}
		given[slot] = value
	}) {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(text, &object); err != nil {
			return err
		}
		return errors.New("json: want an object")
	}
	v := reflect.ValueOf(into).Elem()
	for i := range l.fields {
		if err := l.fields[i].read(given, v); err != nil {
			if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Struct == "" {
				wrong.Struct, wrong.Field = l.name, l.fields[i].name
			}
			return err
		}
	}
	if l.strict && some {
		return fmt.Errorf("json: unknown field %q", unknown)
	}
	return nil
}

// read reads the field from the given members, each at the position of its name.
func (f *layoutField) read(given [][]byte, of reflect.Value) error {
	given = given[f.slot : f.slot+f.width()]
	if !slices.ContainsFunc(given, func(text []byte) bool { return text != nil }) {
		return nil
	}
	v := of.FieldByIndex(f.index)
	switch f.kind {
	case momentField:
		m := v.Addr().Interface().(*Moment)
		return errors.Join(readDate(given, f.name, &m.Date), readText(given[2], &m.Clock))
	case dateField:
		return readDate(given, f.name, v.Addr().Interface().(*Date))
	case timeField:
		into := v.Addr().Interface().(*time.Time)
		d := DateOf(*into)
		err := readDate(given, f.name, &d)
		*into = d.Time()
		return err
	case durationField:
		if strings.HasSuffix(f.name, "_us") {
			us := time.Duration(v.Int()).Microseconds()
			err := readText(given[0], &us)
			read := millis.Micros(us)
			v.SetInt(int64(read))
			return cmp.Or(err, f.checkHeld(us, read.Microseconds()))
		}
		ms := millis.Of(time.Duration(v.Int()))
		err := readText(given[0], &ms)
		read := millis.Duration(ms)
		v.SetInt(int64(read))
		return cmp.Or(err, f.checkHeld(ms, read.Milliseconds()))
	case rawField:
		if text := given[0]; text[0] != '"' {
			v.SetString(plainJSON(text))
			return nil
		}
	}
	return f.readPlain(given[0], v)
}

// checkHeld rejects a duration that does not fit in a time.Duration: a later check would report another number.
func (f *layoutField) checkHeld(given, held int64) error {
	if given == held {
		return nil
	}
	return Refusef(KindInvalid, f.name, "%s must be between 0 and %d, got %d", f.name, f.most, given)
}

// readPlain reads values of a simple kind in simple notation, and leaves other values and all errors to encoding/json.
func (f *layoutField) readPlain(text []byte, v reflect.Value) error {
	switch f.plain {
	case reflect.String:
		if s, ok := jsonparts.Text(text); ok {
			v.SetString(string(s))
			return nil
		}
	case reflect.Int32, reflect.Int64:
		if n, ok := jsonparts.Number(text); ok && !v.OverflowInt(n) {
			v.SetInt(n)
			return nil
		}
	}
	return readText(text, v.Addr().Interface())
}

// readText reads JSON that is there.
func readText(text []byte, into any) error {
	if text == nil {
		return nil
	}
	if own, ok := into.(json.Unmarshaler); ok {
		return own.UnmarshalJSON(text)
	}
	return json.Unmarshal(text, into)
}

// readDate reads a date from either of its two names; if both are given, they must be equal.
func readDate(given [][]byte, name string, into *Date) error {
	var text string
	if err := errors.Join(readText(given[0], into), readText(given[1], &text)); err != nil || text == "" {
		return err
	}
	d, err := ParseDate(text)
	switch {
	case err != nil:
		return Malformed(name+"_at", text, "use RFC 3339, such as 2030-01-02T15:04:05Z")
	case given[0] != nil && d != *into:
		return Refusef(KindInvalid, name+"_at", "%s_at is %s, but %s_ms is %d, which is %s: set only one of them", name, text, name, *into, *into)
	}
	*into = d
	return nil
}

// plainJSON returns JSON as json.Marshal writes it: without blanks, and with the characters that are special in HTML
// escaped. It returns "" for text that is not JSON.
func plainJSON(text []byte) string {
	var compact, plain bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return ""
	}
	json.HTMLEscape(&plain, compact.Bytes())
	return plain.String()
}
