package rota

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rotasched/rota/internal/millis"
)

// layout is how the JSON of a struct is laid out: as encoding/json does it, but that
//
//   - a Moment tagged "x" is x_ms, x_at and x_clock_ms,
//   - a Date or a time.Time tagged "x_ms" is x_ms and x_at,
//   - a time.Duration tagged "x_ms" is x_ms, its whole milliseconds, and one tagged "x_us" its microseconds,
//   - neither is written before it is reached, and x_at is taken for x_ms,
//   - a string with the option "raw" that is a JSON object or array as json.Marshal writes
//     them is written as it is, so that no encoder changes a byte of it; any other text is
//     a string, so that each reads back as what it was.
//
// Every type with such a field has a layout and its methods below; an embedded struct
// is part of the one around it.
type layout struct {
	// name is the type's.
	name   string
	fields []layoutField
	// strict refuses fields that it does not know: people write such JSON.
	strict bool
}

type layoutField struct {
	// name is the field's; of a Moment or a Date it is without the ending.
	name  string
	index []int
	kind  fieldKind
	// empty and zero are omitempty and omitzero.
	empty, zero bool
}

type fieldKind uint8

const (
	plainField fieldKind = iota
	momentField
	dateField
	timeField
	durationField
	rawField
)

func layoutOf[T any]() *layout {
	l := &layout{name: reflect.TypeFor[T]().Name()}
	l.add(reflect.TypeFor[T](), nil)
	return l
}

// strictly returns the layout of what people write.
func strictly(l *layout) *layout {
	l.strict = true
	return l
}

func (l *layout) add(t reflect.Type, path []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(path), i)
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && !tagged:
			l.add(f.Type, index)
			continue
		case !f.IsExported() || tag == "-":
			continue
		}
		kind := plainField
		switch {
		case f.Type == reflect.TypeFor[Moment]():
			kind = momentField
		case f.Type == reflect.TypeFor[Date]():
			kind, name = dateField, strings.TrimSuffix(name, "_ms")
		case f.Type == reflect.TypeFor[time.Time]():
			kind, name = timeField, strings.TrimSuffix(name, "_ms")
		case f.Type == reflect.TypeFor[time.Duration]():
			kind = durationField
		case hasOption(options, "raw"):
			kind = rawField
		}
		l.put(layoutField{name, index, kind, hasOption(options, "omitempty"), hasOption(options, "omitzero")})
	}
}

// put adds a field; of two with one name the outer one counts, as with Go's own.
func (l *layout) put(f layoutField) {
	i := slices.IndexFunc(l.fields, func(o layoutField) bool { return o.name == f.name && o.kind == f.kind })
	switch {
	case i < 0:
		l.fields = append(l.fields, f)
	case len(f.index) < len(l.fields[i].index):
		l.fields[i] = f
	}
}

func hasOption(options, name string) bool {
	return slices.Contains(strings.Split(options, ","), name)
}

// layoutWriter writes one object.
type layoutWriter struct {
	out  bytes.Buffer
	json *json.Encoder
}

func (w *layoutWriter) field(name string, value any) error {
	if w.out.Len() > 1 {
		w.out.WriteByte(',')
	}
	w.out.WriteByte('"')
	w.out.WriteString(name)
	w.out.WriteString(`":`)
	if err := w.json.Encode(value); err != nil {
		return err
	}
	w.out.Truncate(w.out.Len() - 1) // the newline
	return nil
}

// marshal writes a value of the layout's type.
func (l *layout) marshal(value any) ([]byte, error) {
	v := reflect.ValueOf(value)
	w := &layoutWriter{}
	w.json = json.NewEncoder(&w.out)
	w.json.SetEscapeHTML(false)
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
		return errors.Join(w.date(f.name, m.Date), w.field(f.name+"_clock_ms", int64(m.Clock)))
	case dateField:
		if v.Int() == 0 {
			return nil
		}
		return w.date(f.name, Date(v.Int()))
	case timeField:
		if d := DateOf(v.Interface().(time.Time)); d != 0 {
			return w.date(f.name, d)
		}
		return nil
	case durationField:
		if f.empty && v.Int() == 0 {
			return nil
		}
		if strings.HasSuffix(f.name, "_us") {
			return w.field(f.name, time.Duration(v.Int()).Microseconds())
		}
		return w.field(f.name, millis.Of(time.Duration(v.Int())))
	case rawField:
		if text := v.String(); text != "" && strings.ContainsRune("{[", rune(text[0])) && plainJSON([]byte(text)) == text {
			return w.field(f.name, json.RawMessage(text))
		}
	}
	if f.empty && isEmpty(v) || f.zero && v.IsZero() {
		return nil
	}
	return w.field(f.name, v.Interface())
}

func (w *layoutWriter) date(name string, d Date) error {
	return errors.Join(w.field(name+"_ms", int64(d)), w.field(name+"_at", d.String()))
}

// isEmpty is what omitempty means in encoding/json.
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

// unmarshal reads into a pointer to a value of the layout's type. Fields that the
// text does not have stay as they are.
func (l *layout) unmarshal(text []byte, into any) error {
	if string(text) == "null" {
		return nil
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	v := reflect.ValueOf(into).Elem()
	for i := range l.fields {
		f := &l.fields[i]
		err := f.read(given, v.FieldByIndex(f.index))
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Struct == "" {
			wrong.Struct, wrong.Field = l.name, f.name
		}
		if err != nil {
			return err
		}
	}
	if unknown := slices.Sorted(maps.Keys(given)); l.strict && len(unknown) > 0 {
		return fmt.Errorf("json: unknown field %q", unknown[0])
	}
	return nil
}

// read takes what is the field's out of what was given.
func (f *layoutField) read(given map[string]json.RawMessage, v reflect.Value) error {
	switch f.kind {
	case momentField:
		m := v.Addr().Interface().(*Moment)
		return errors.Join(readDate(given, f.name, &m.Date), readField(given, f.name+"_clock_ms", &m.Clock))
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
			err := readField(given, f.name, &us)
			v.SetInt(int64(millis.Micros(us)))
			return err
		}
		ms := millis.Of(time.Duration(v.Int()))
		err := readField(given, f.name, &ms)
		v.SetInt(int64(millis.Duration(ms)))
		return err
	case rawField:
		if text, ok := given[f.name]; ok && len(text) > 0 && text[0] != '"' {
			delete(given, f.name)
			v.SetString(plainJSON(text))
			return nil
		}
	}
	return readField(given, f.name, v.Addr().Interface())
}

// plainJSON returns JSON as json.Marshal writes it: without blanks, and with what HTML
// minds escaped. It returns "" for what is no JSON.
func plainJSON(text []byte) string {
	var compact, plain bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return ""
	}
	json.HTMLEscape(&plain, compact.Bytes())
	return plain.String()
}

func readField(given map[string]json.RawMessage, name string, into any) error {
	text, ok := given[name]
	if !ok {
		return nil
	}
	delete(given, name)
	return json.Unmarshal(text, into)
}

// readDate reads a date from either of its two names; where both are given they must
// say the same.
func readDate(given map[string]json.RawMessage, name string, into *Date) error {
	var text string
	_, both := given[name+"_ms"]
	if err := errors.Join(readField(given, name+"_ms", into), readField(given, name+"_at", &text)); err != nil || text == "" {
		return err
	}
	d, err := ParseDate(text)
	switch {
	case err != nil:
		return Refusef(KindInvalid, name+"_at", "%s_at is %.40q: RFC 3339 is wanted, such as 2030-01-02T15:04:05Z", name, text)
	case both && d != *into:
		return Refusef(KindInvalid, name+"_at", "%s_at %s is not %s_ms %d, which is %s: give one of them", name, text, name, *into, *into)
	}
	*into = d
	return nil
}
