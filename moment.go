package rota

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rotasched/rota/internal/jsonparts"
	"github.com/rotasched/rota/internal/millis"
)

// Moment is one instant in both of the cluster's times: on its clock, which determines what happens, and as a date,
// which is shown to people (SPEC §3.1). The zero value means that the moment was not reached.
//
// In JSON a field of this type, tagged "started", is three: started_ms, the date; started_at, the same in RFC 3339; and
// started_clock_ms (SPEC §16.8).
type Moment struct {
	Clock Clock
	Date  Date
}

// IsZero reports whether the moment was not reached.
func (m Moment) IsZero() bool { return m == Moment{} }

// At converts a clock value c to a moment: its date is m's date plus the difference between c and m's clock. A moment
// that was not reached is returned unchanged.
func (m Moment) At(c Clock) Moment {
	if c == 0 {
		return Moment{}
	}
	return Moment{c, m.Date + Date(c-m.Clock)}
}

// On is At for a date.
func (m Moment) On(d Date) Moment {
	if d == 0 {
		return Moment{}
	}
	return Moment{m.Clock + Clock(d-m.Date), d}
}

// dateLayout is RFC 3339 to the millisecond, so that no two dates look the same.
const dateLayout = "2006-01-02T15:04:05.000Z07:00"

// String shows the date in RFC 3339, UTC, to the millisecond; "" for none.
func (d Date) String() string {
	if d == 0 {
		return ""
	}
	return time.UnixMilli(int64(d)).UTC().Format(dateLayout)
}

// Time returns the date in UTC; the zero time for none.
func (d Date) Time() time.Time {
	if d == 0 {
		return time.Time{}
	}
	t := time.UnixMilli(int64(d)).UTC()
	if t.IsZero() {
		t = t.Add(-time.Millisecond) // a date, though an unlikely one: not none
	}
	return t
}

// DateOf returns the date of a time, truncated to milliseconds. The date of the zero time is 0.
func DateOf(t time.Time) Date {
	if t.IsZero() {
		return 0
	}
	return Date(t.UnixMilli())
}

// Time returns the moment's date in UTC; the zero time for a moment that was not reached.
func (m Moment) Time() time.Time { return m.Date.Time() }

// ParseDate parses a date in RFC 3339, truncated to milliseconds.
func ParseDate(text string) (Date, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, Refusef(KindInvalid, "date", "invalid date %q: use RFC 3339, such as 2030-01-02T15:04:05Z",
			shorten(text))
	}
	return Date(t.UnixMilli()), nil
}

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
		return Refusef(KindInvalid, name+"_at", "%s_at is %s, but %s_ms is %d, which is %s: set only one of them", name,
			text, name, *into, *into)
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
		if text := v.String(); text != "" && strings.ContainsRune("{[", rune(text[0])) &&
			plainJSON([]byte(text)) == text {
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
