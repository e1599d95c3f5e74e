package rota

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/rotasched/rota/internal/millis"
)

// layoutWriter writes one object.
type layoutWriter struct {
	out bytes.Buffer
	// json writes the values that are not written here; nil until the first of them.
	json *json.Encoder
}

// name begins a member.
func (w *layoutWriter) name(name string) {
	if w.out.Len() > 1 {
		w.out.WriteByte(',')
	}
	w.out.WriteByte('"')
	w.out.WriteString(name)
	w.out.WriteString(`":`)
}

// value writes any value.
func (w *layoutWriter) value(value any) error {
	if w.json == nil {
		w.json = json.NewEncoder(&w.out)
		w.json.SetEscapeHTML(false)
	}
	if err := w.json.Encode(value); err != nil {
		return err
	}
	w.out.Truncate(w.out.Len() - 1) // the newline
	return nil
}

func (w *layoutWriter) number(n int64) {
	w.out.Write(strconv.AppendInt(w.out.AvailableBuffer(), n, 10))
}

func (w *layoutWriter) text(text string) error {
	if !asItIs(text) {
		return w.value(text)
	}
	w.out.WriteByte('"')
	w.out.WriteString(text)
	w.out.WriteByte('"')
	return nil
}

// asItIs reports whether JSON contains a text unchanged: no encoder escapes anything in it, whatever its settings.
func asItIs(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// marshal writes a value of the layout's type.
func (l *layout) marshal(value any) ([]byte, error) {
	v := reflect.ValueOf(value)
	w := &layoutWriter{}
	w.out.WriteByte('{')
	for i := range l.fields {
		f := &l.fields[i]
		if err := f.write(w, v.FieldByIndex(f.index)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	w.out.WriteByte('}')
	return w.out.Bytes(), nil
}

func (f *layoutField) write(w *layoutWriter, v reflect.Value) error {
	switch f.kind {
	case momentField:
		m := v.Interface().(Moment)
		if m.IsZero() {
			return nil
		}
		f.date(w, m.Date)
		w.name(f.name + "_clock_ms")
		w.number(int64(m.Clock))
		return nil
	case dateField:
		if v.Int() != 0 {
			f.date(w, Date(v.Int()))
		}
		return nil
	case timeField:
		if d := DateOf(v.Interface().(time.Time)); d != 0 {
			f.date(w, d)
		}
		return nil
	case durationField:
		if f.empty && v.Int() == 0 {
			return nil
		}
		w.name(f.name)
		if strings.HasSuffix(f.name, "_us") {
			w.number(time.Duration(v.Int()).Microseconds())
		} else {
			w.number(millis.Of(time.Duration(v.Int())))
		}
		return nil
	case rawField:
		if text := v.String(); text != "" && strings.ContainsRune("{[", rune(text[0])) && plainJSON([]byte(text)) == text {
			w.name(f.name)
			return w.value(json.RawMessage(text))
		}
	}
	if f.empty && isEmpty(v) || f.zero && v.IsZero() {
		return nil
	}
	w.name(f.name)
	switch f.plain {
	case reflect.String:
		return w.text(v.String())
	case reflect.Int, reflect.Int32, reflect.Int64:
		w.number(v.Int())
		return nil
	}
	return w.value(v.Interface())
}

func (f *layoutField) date(w *layoutWriter, d Date) {
	w.name(f.name + "_ms")
	w.number(int64(d))
	w.name(f.name + "_at")
	w.out.WriteByte('"')
	w.out.WriteString(d.String()) // of RFC 3339
	w.out.WriteByte('"')
}

// isEmpty implements omitempty as in encoding/json.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}
