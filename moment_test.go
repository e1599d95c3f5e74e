package rota

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rotasched/rota/internal/millis"
)

// laidOut lists the types whose JSON has moments.
var laidOut = []any{JobSpec{}, NodeSpec{}, Attempt{}, Job{}, Lease{}, Attestation{}, TypeUntil{}, UnitsUsed{}, Worker{},
	Event{},
	ServedEvent{}, Domain{}, ModeStatus{}, Explanation{}, ClusterStatus{}, Attention{}, Concern{}, NodeStatus{},
	RaftPeer{}, NodeHealth{}, NodeSnapshot{}, NodeArchive{}, SnapshotInfo{}, Workflow{}, WorkflowNode{},
	Role{}, AccessToken{}, Block{}, Issuer{}, StoredBackup{}, KeyState{}, KeyPause{}, KeyBreakerState{}, BudgetState{},
	BudgetAccount{}, BudgetChange{}, ScheduleTimes{}, ScheduleSpec{}, Schedule{},
	ScheduleDecision{}, Batch{}, Plan{}, Webhook{}, ETA{}, TZData{}, TZInstall{}}

// timesOnly lists those of them that have only durations.
var timesOnly = []any{ReadAt{}, RetryPolicy{}, Gate{}, Queue{}, TypeStats{}, Unique{}}

// TestMomentsInJSON checks that every moment has its three names, and that the ones for people and for programs are the
// same instant.
func TestMomentsInJSON(t *testing.T) {
	t.Parallel()
	for _, v := range laidOut {
		typ := reflect.TypeOf(v)
		t.Run(typ.Name(), func(t *testing.T) {
			t.Parallel()
			filled := reflect.New(typ)
			next := int64(1_700_000_000_000)
			names := fillMoments(filled.Elem(), &next)
			if len(names) == 0 {
				t.Fatal("no moment in it")
			}
			text, err := json.Marshal(filled.Elem().Interface())
			if err != nil {
				t.Fatal(err)
			}
			var shown map[string]any
			if err := json.Unmarshal(text, &shown); err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				ms, at := shown[name+"_ms"], shown[name+"_at"]
				date, err := ParseDate(at.(string))
				if err != nil || float64(date) != ms.(float64) {
					t.Errorf("%s_ms is %v, %s_at %v: %v", name, ms, name, at, err)
				}
			}
			back := reflect.New(typ)
			if err := json.Unmarshal(text, back.Interface()); err != nil ||
				fmt.Sprint(back.Elem()) != fmt.Sprint(filled.Elem()) {
				t.Errorf("%v; came back as\n%+v, was\n%+v", err, back.Elem(), filled.Elem())
			}
			if text, _ := json.Marshal(v); strings.Contains(string(text), "_at\"") {
				t.Errorf("moments that are not reached are shown: %s", text)
			}
		})
	}
}

// fillMoments sets every moment and date of a struct to a different value, and returns their names. Fields in lists or
// behind pointers are covered by the tests of their own types.
func fillMoments(v reflect.Value, next *int64) (names []string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		*next += 1_001
		switch x := v.Field(i).Addr().Interface().(type) {
		case *Moment:
			*x = Moment{Clock(*next - 80_500), Date(*next)}
			names = append(names, name)
		case *Date:
			*x = Date(*next)
			names = append(names, strings.TrimSuffix(name, "_ms"))
		case *time.Time:
			*x = Date(*next).Time()
			names = append(names, strings.TrimSuffix(name, "_ms"))
		case *time.Duration:
			*x = millis.Duration(*next)
		default:
			if f.Anonymous {
				names = append(names, fillMoments(v.Field(i), next)...)
			}
		}
	}
	return names
}

// TestEveryTypeWithMomentsIsLaidOut finds the structs of this package's JSON that have moments: without a layout they
// would be shown in Go's format. A field that only the clock determines has a name that shows it.
func TestEveryTypeWithMomentsIsLaidOut(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, v := range slices.Concat(laidOut, timesOnly) {
		known[reflect.TypeOf(v).Name()] = true
		if _, ok := v.(json.Marshaler); !ok {
			t.Errorf("%T has no MarshalJSON", v)
		}
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := &ast.File{Name: ast.NewIdent("rota")}
	for _, path := range sources {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if f.Name.Name == "rota" {
			all.Decls = append(all.Decls, f.Decls...)
		}
	}
	found := 0
	ast.Inspect(all, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, f := range fields.Fields.List {
			if of, ok := f.Type.(*ast.SelectorExpr); ok && f.Tag != nil &&
				(of.Sel.Name == "Time" || of.Sel.Name == "Duration") && !known[spec.Name.Name] {
				t.Errorf("%s has a time.%s: give it a layout (moment_types.go)", spec.Name, of.Sel.Name)
			}
			typ, _ := f.Type.(*ast.Ident)
			switch {
			case typ == nil || !spec.Name.IsExported():
			case f.Tag != nil && (typ.Name == "Moment" || typ.Name == "Date"), f.Names == nil && known[typ.Name]:
				if found++; !known[spec.Name.Name] {
					t.Errorf("%s has a %s: give it a layout (moment_types.go)", spec.Name, typ.Name)
				}
			case f.Tag != nil && typ.Name == "Clock" && !strings.Contains(f.Tag.Value, `"clock_ms`) &&
				!strings.Contains(f.Tag.Value, `"logical_time`):
				t.Errorf("%s.%s is shown by the clock alone: make it a Moment", spec.Name, f.Names[0])
			}
		}
		return true
	})
	if found < len(laidOut) {
		t.Errorf("found %d moments: the test sees nothing", found)
	}
}

// TestDurationsInJSON checks that JSON has durations in milliseconds, under names that show it.
func TestDurationsInJSON(t *testing.T) {
	t.Parallel()
	spec := JobSpec{ID: "j", Delay: time.Second, TTL: time.Hour, MaxRuntime: time.Minute, Simulate: 1,
		Expected: 1_500_001, NotBefore: time.Date(2030, 1, 2, 3, 4, 5, 6_999_999, time.FixedZone("x", 3600))}
	const want = `{"id":"j","queue":"","type":"","priority":0,"delay_ms":1000,"not_before_ms":1893549845006,` +
		`"not_before_at":"2030-01-02T02:04:05.006Z","ttl_ms":3600000,"max_runtime_ms":60000,"simulate_ms":1,"expected_ms":2}`
	if text, err := json.Marshal(spec); err != nil || string(text) != want {
		t.Errorf("%v\n%s, want\n%s", err, text, want)
	}
	var back JobSpec
	if err := json.Unmarshal([]byte(want), &back); err != nil || back.Delay != time.Second ||
		back.Expected != 2*time.Millisecond ||
		!back.NotBefore.Equal(spec.NotBefore.Truncate(time.Millisecond)) {
		t.Errorf("%v, %+v", err, back)
	}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal([]byte(`{"delay_ms":"5s"}`), &back); !errors.As(err, &wrong) || wrong.Field != "delay_ms" {
		t.Errorf("a duration in words: %v", err)
	}
	if text, err := json.Marshal(ReadAt{Index: 7, Age: -time.Millisecond}); err != nil ||
		string(text) != `{"index":7,"age_ms":-1}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestMoment(t *testing.T) {
	t.Parallel()
	now := Moment{Clock: 1_000, Date: 81_500}
	if at := now.At(3_000); at != (Moment{3_000, 83_500}) {
		t.Errorf("2 s from now is %v", at)
	}
	if at := now.On(81_000); at != (Moment{500, 81_000}) {
		t.Errorf("half a second ago was %v", at)
	}
	if !now.At(0).IsZero() || !now.On(0).IsZero() {
		t.Error("a moment that was not reached has a date")
	}
	if d := Date(1_700_000_000_007); d.String() != "2023-11-14T22:13:20.007Z" || Date(0).String() != "" {
		t.Errorf("date %s", d)
	}
}

// TestSpecTakesEitherDate reads a spec in the formats that people write.
func TestSpecTakesEitherDate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Date{
		`{"not_before_ms":1700000000007}`:                                                 1_700_000_000_007,
		`{"not_before_at":"2023-11-14T22:13:20.007Z"}`:                                    1_700_000_000_007,
		`{"not_before_at":"2023-11-14T23:13:20.007+01:00","not_before_ms":1700000000007}`: 1_700_000_000_007,
		`{"not_before_at":"tomorrow"}`:                                                    -1,
		`{"not_before_at":"2023-11-14T22:13:20Z","not_before_ms":1700000000007}`:          -1,
		`{"not_before":1700000000007}`:                                                    -1,
		`{"not_before_ms":"2023-11-14T22:13:20Z"}`:                                        -1,
	} {
		var s JobSpec
		err := json.Unmarshal([]byte(text), &s)
		if (err != nil) != (want < 0) || err == nil && DateOf(s.NotBefore) != want {
			t.Errorf("%s: %s, %v", text, s.NotBefore, err)
		}
		var n NodeSpec
		if again := json.Unmarshal([]byte(text), &n); (again == nil) != (err == nil) || err == nil &&
			DateOf(n.NotBefore) != want {
			t.Errorf("node %s: %s, %v", text, n.NotBefore, again)
		}
	}
}

// TestPayloadIsJSON checks that an event's payload is shown as the object that it is, and that its bytes are those that
// are hashed, whichever encoder writes them.
func TestPayloadIsJSON(t *testing.T) {
	t.Parallel()
	e := ServedEvent{Event: Event{Payload: `{"due_ms":5,"text":"\u003ca\u003e"}`}}
	text, err := serverEventJSON(e)
	if err != nil || !strings.Contains(text, `"payload":{"due_ms":5,"text":"\u003ca\u003e"}`) {
		t.Fatalf("%s, %v", text, err)
	}
	var back ServedEvent
	if err := json.Unmarshal([]byte(text), &back); err != nil || back.Payload != e.Payload {
		t.Errorf("came back as %q, %v", back.Payload, err)
	}
	e.Payload = "no JSON"
	text, err = serverEventJSON(e)
	if err := json.Unmarshal([]byte(text), &back); err != nil || back.Payload != e.Payload {
		t.Errorf("came back as %q, %v", back.Payload, err)
	}
	if err != nil || !strings.Contains(text, `"payload":"no JSON"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// FuzzEventPayload checks that every payload read back from the JSON of its event is unchanged, even if the JSON was
// reformatted on its way.
func FuzzEventPayload(f *testing.F) {
	for _, text := range []string{"", `"text"`, "null", "12", "true", "text", `{"a":1}`, `{"a": 1}`, " {}", "{} ",
		"[1,2]", "[ ]", "{", "[1",
		`{"a":"<b>&"}`, `{"a":"\u003cb"}`, `{"a":"\u003Cb"}`, "[\"\u2028\"]", `["\u2028"]`, `{"a":1.50,"a":2}`, `"\"`,
		"\x00", "<&>"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		if !utf8.ValidString(payload) {
			t.Skip("JSON is UTF-8")
		}
		e := Event{Kind: EventJobAssigned, Payload: payload}
		marshalled, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		own, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, marshalled, "", "  "); err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{marshalled, own, indented.Bytes()} {
			var back Event
			if err := json.Unmarshal(text, &back); err != nil || back.Payload != payload {
				t.Errorf("payload %q came back from %s as %q, %v", payload, text, back.Payload, err)
			}
		}
		// The JSON holds exactly the bytes that payload_hash covers.
		var shown struct{ Payload json.RawMessage }
		if err := json.Unmarshal(marshalled, &shown); err != nil {
			t.Fatal(err)
		}
		if len(shown.Payload) > 0 && shown.Payload[0] != '"' && string(shown.Payload) != payload {
			t.Errorf("payload %q is shown as %s", payload, shown.Payload)
		}
	})
}

func serverEventJSON(e ServedEvent) (string, error) {
	text, err := e.MarshalJSON()
	return string(text), err
}

// TestTypeStats_JSON checks that the mean stays in microseconds and expected values in milliseconds.
func TestTypeStats_JSON(t *testing.T) {
	t.Parallel()
	want := TypeStats{Type: "t", EMA: 1500 * time.Microsecond, Expected: 2 * time.Second}
	text, err := json.Marshal(want)
	if err != nil || !bytes.Contains(text, []byte(`"ema_us":1500,"expected_ms":2000`)) {
		t.Fatalf("%s, %v", text, err)
	}
	var got TypeStats
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("%+v comes back, %v", got, err)
	}
}
