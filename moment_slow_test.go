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
	"testing"
	"time"

	"github.com/rotasched/rota/internal/millis"
)

// FuzzLayouts checks that JSON is read as encoding/json alone would read it, and written as it would be written.
func FuzzLayouts(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, ` {"id" : "a" , "priority":-3}`, `{"id":"a\u0062","queue":"\ud83d\ude00","type":"\n"}`,
		`{"id":"é","id":"b"}`,
		`{"p\u0072iority":5}`, `{"priority":1.5}`, `{"priority":"5"}`, `{"priority":2147483648}`,
		`{"priority":-0,"fee":1e3}`, `{"fee":9223372036854775807}`,
		`{"fee":9223372036854775808}`, `{"fee":null,"id":null,"payload":null}`, `{"payload":{"base64":"AAE="}}`,
		`{"payload":{"base64":null}}`,
		`{"payload":{"base64":"AA==","base64":"AQ=="}}`, `{"payload":{"base64":"AA==","x":1}}`,
		`{"payload":{"a": [1, {"b":"}"}]}}`, `{"payload":true}`,
		`{"payload":"<&>"}`, `{"payload":"\u2028"}`, `{"payload":" ~\u007f"}`,
		`{"requires":["a","b"],"labels":{"a":"b"}}`, `{"retry":{"attempts":3,"tries":1}}`,
		`{"delay_ms":5,"ttl_ms":"5"}`, `{"not_before_ms":1700000000007}`,
		`{"not_before_at":"2023-11-14T22:13:20.007Z"}`,
		`{"not_before_at":"2023-11-14T22:13:20.007Z","not_before_ms":5}`, `{"not_before_at":5}`, `{"":1}`,
		`{"zzz":1,"aaa":[],"id":5}`, `[1]`, `"x"`, `5`,
		`{"expected_digest":"abcd","expected_ms":1}`, `{"id":"\\\"","type":"\\"}`,
		`{"payload":{"text":"\u003ca\u003e"},"kind":"jobAssigned"}`,
		`{"started_ms":5,"started_clock_ms":7,"lease_id":"ab"}`, "{\"id\":\"\xff\"}", "{\"\xff\":1}",
		`{"unique":{"by":["args"]},"parents":["a"]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			_ = new(JobSpec).UnmarshalJSON(text) // any result
			_ = new(Blob).UnmarshalJSON(text)
			return
		}
		text = bytes.TrimSpace(text)
		for _, c := range []struct {
			layout     *layout
			into, slow any
		}{
			{jobSpecJSON, &JobSpec{Priority: 5}, &JobSpec{Priority: 5}}, {nodeSpecJSON, &NodeSpec{}, &NodeSpec{}},
			{attemptJSON, &Attempt{}, &Attempt{}},
			{eventJSON, &Event{}, &Event{}}, {retryPolicyJSON, &RetryPolicy{}, &RetryPolicy{}},
			{typeStatsJSON, &TypeStats{}, &TypeStats{}},
		} {
			err, slow := c.layout.unmarshal(text, c.into), slowUnmarshal(c.layout, text, c.slow)
			if fmt.Sprint(err) != fmt.Sprint(slow) || !reflect.DeepEqual(c.into, c.slow) {
				t.Fatalf("%s from %s\n%+v, %v: want\n%+v, %v", c.layout.name, text, c.into, err, c.slow, slow)
			}
			got, err := c.layout.marshal(reflect.ValueOf(c.into).Elem().Interface())
			want, slow := slowMarshal(c.layout, reflect.ValueOf(c.slow).Elem().Interface())
			if fmt.Sprint(err) != fmt.Sprint(slow) || !bytes.Equal(got, want) {
				t.Fatalf("%s is written\n%s, %v: want\n%s, %v", c.layout.name, got, err, want, slow)
			}
		}
		var b, slowly Blob
		if err, slow := b.UnmarshalJSON(text), slowBlob(&slowly, text); fmt.Sprint(err) != fmt.Sprint(slow) ||
			!reflect.DeepEqual(b, slowly) {
			t.Fatalf("a blob from %s: %q, %v: want %q, %v", text, b, err, slowly, slow)
		}
	})
}

// slowWriter writes one object.
type slowWriter struct {
	out  bytes.Buffer
	json *json.Encoder
}

func (w *slowWriter) field(name string, value any) error {
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

// slowMarshal writes a value of the layout's type.
func slowMarshal(l *layout, value any) ([]byte, error) {
	v := reflect.ValueOf(value)
	w := &slowWriter{}
	w.json = json.NewEncoder(&w.out)
	w.json.SetEscapeHTML(false)
	w.out.WriteByte('{')
	for i := range l.fields {
		f := &l.fields[i]
		if err := slowWrite(f, w, v.FieldByIndex(f.index)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	w.out.WriteByte('}')
	return w.out.Bytes(), nil
}

func slowWrite(f *layoutField, w *slowWriter, v reflect.Value) error {
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
		if text := v.String(); text != "" && strings.ContainsRune("{[", rune(text[0])) &&
			plainJSON([]byte(text)) == text {
			return w.field(f.name, json.RawMessage(text))
		}
	}
	if f.empty && isEmpty(v) || f.zero && v.IsZero() {
		return nil
	}
	return w.field(f.name, v.Interface())
}

func (w *slowWriter) date(name string, d Date) error {
	return errors.Join(w.field(name+"_ms", int64(d)), w.field(name+"_at", d.String()))
}

// slowUnmarshal reads into a pointer to a value of the layout's type. Fields that the
// text does not have stay as they are.
func slowUnmarshal(l *layout, text []byte, into any) error {
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
		err := slowRead(f, given, v.FieldByIndex(f.index))
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

// slowRead reads the field's members and removes them from the given ones.
func slowRead(f *layoutField, given map[string]json.RawMessage, v reflect.Value) error {
	switch f.kind {
	case momentField:
		m := v.Addr().Interface().(*Moment)
		return errors.Join(slowDate(given, f.name, &m.Date), slowField(given, f.name+"_clock_ms", &m.Clock))
	case dateField:
		return slowDate(given, f.name, v.Addr().Interface().(*Date))
	case timeField:
		into := v.Addr().Interface().(*time.Time)
		d := DateOf(*into)
		err := slowDate(given, f.name, &d)
		*into = d.Time()
		return err
	case durationField:
		if strings.HasSuffix(f.name, "_us") {
			us := time.Duration(v.Int()).Microseconds()
			err := slowField(given, f.name, &us)
			v.SetInt(int64(millis.Micros(us)))
			return slowHeld(f, us, time.Duration(v.Int()).Microseconds(), err)
		}
		ms := millis.Of(time.Duration(v.Int()))
		err := slowField(given, f.name, &ms)
		v.SetInt(int64(millis.Duration(ms)))
		return slowHeld(f, ms, time.Duration(v.Int()).Milliseconds(), err)
	case rawField:
		if text, ok := given[f.name]; ok && len(text) > 0 && text[0] != '"' {
			delete(given, f.name)
			v.SetString(plainJSON(text))
			return nil
		}
	}
	return slowField(given, f.name, v.Addr().Interface())
}

func slowHeld(f *layoutField, given, held int64, err error) error {
	if err != nil || given == held {
		return err
	}
	return Refusef(KindInvalid, f.name, "%s must be between 0 and %d, got %d", f.name, f.most, given)
}

func slowField(given map[string]json.RawMessage, name string, into any) error {
	text, ok := given[name]
	if !ok {
		return nil
	}
	delete(given, name)
	return json.Unmarshal(text, into)
}

// slowDate reads a date from either of its two names; if both are given they must be equal.
func slowDate(given map[string]json.RawMessage, name string, into *Date) error {
	var text string
	_, both := given[name+"_ms"]
	if err := errors.Join(slowField(given, name+"_ms", into), slowField(given, name+"_at", &text)); err != nil ||
		text == "" {
		return err
	}
	d, err := ParseDate(text)
	switch {
	case err != nil:
		return Malformed(name+"_at", text, "use RFC 3339, such as 2030-01-02T15:04:05Z")
	case both && d != *into:
		return Refusef(KindInvalid, name+"_at", "%s_at is %s, but %s_ms is %d, which is %s: set only one of them", name,
			text, name, *into, *into)
	}
	*into = d
	return nil
}

// slowBlob is Blob.UnmarshalJSON with encoding/json alone.
func slowBlob(b *Blob, text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*b = Blob(s)
		return nil
	}
	var o map[string]json.RawMessage
	if json.Unmarshal(text, &o) == nil && len(o) == 1 && o["base64"] != nil {
		d, names := json.NewDecoder(bytes.NewReader(text)), 0
		_, _ = d.Token() // the brace of a valid text
		for ; d.More(); names++ {
			_, _ = d.Token()
			_ = d.Decode(new(json.RawMessage))
		}
		if names > 1 {
			return Refusef(KindInvalid, "payload", "payload: got base64 twice; remove one")
		}
		if err := json.Unmarshal(o["base64"], (*[]byte)(b)); err != nil || *b == nil {
			return Refusef(KindInvalid, "payload",
				`payload: {"base64":…} does not hold base64; to send this object as it is, send its text as a string`)
		}
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return err
	}
	*b = compact.Bytes()
	return nil
}
