package web

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
)

// fill sets everything within a value, to the given depth.
func fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 0 && !v.Type().Implements(reflect.TypeFor[error]()) {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth-1)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.UnixMilli(1_900_000_000_000)))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), depth)
			}
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth-1)
		fill(value, depth-1)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("1")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(int64(time.Second))
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	}
}

// TestSchemas compares the schema of each body with its JSON, for a value with everything set and one with nothing:
// every described field must exist, and every existing one must be described.
func TestSchemas(t *testing.T) {
	t.Parallel()
	for _, v := range []any{
		rota.Job{}, rota.JobSpec{}, rota.JobPage{}, rota.Explanation{}, rota.AttemptLog{}, rota.Queue{}, rota.Tenant{},
		rota.Worker{},
		rota.ClusterStatus{}, rota.Attention{}, rota.ClusterSettings{}, rota.Identity{}, rota.Submitted{},
		rest.JobsSubmitted{}, rest.JobOutcome{}, rest.Queues{},
		rest.Tenants{}, rest.Workers{}, rest.Problem{}, rest.Settings{}, rest.JobChange{}, rest.JobRetry{},
		rest.JobSubmission{}, rest.Deleted{}, rota.Batch{},
		rest.Batches{}, rest.BatchOpening{}, rota.ModeStatus{}, rest.ModeChange{}, rest.Peers{}, rota.Verdict{},
		rota.Schedule{}, rota.ScheduleSpec{}, rest.Schedules{}, rest.Dates{}, rest.SchedulePause{},
		rest.ScheduleResumption{}, rest.ScheduleRun{},
		rest.TokenSetting{}, rest.Backfill{}, rest.Backfilled{}, rest.Tokens{}, rest.Roles{}, rest.RoleSetting{},
		rest.Issuers{}, rest.IssuerSetting{},
		rest.Blocks{}, rest.Anonymous{}, rest.Exchange{}, rest.Session{}, rest.SessionClaim{}, rest.Done{},
		rest.PolicyKeys{}, rest.JobIDs{}, rest.JobRetries{}, rest.JobsChanged{},
		rest.JobEnded{}, rest.ProofReport{}, rest.Plans{}, rest.KeyRules{}, rest.Keys{}, rest.KeySkip{},
		rest.WorkflowRetry{}, rest.Signal{},
		rota.Plan{}, rota.PlanPreview{}, rota.KeyRule{}, rota.Workflow{}, rota.WorkflowSpec{}, rota.WorkflowPage{},
		rota.WorkflowSubmitted{},
		rota.Signalled{}, rota.TZData{}, rota.TZInstall{}, rest.Handover{}, rest.Led{}, rota.StoredBackup{},
		rota.AccessToken{}, rota.Role{}, rota.Issuer{},
	} {
		full := reflect.New(reflect.TypeOf(v)).Elem()
		fill(full, 4)
		registry := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
		s := schemaFor(registry, full.Type())
		for _, value := range []any{full.Interface(), v} {
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatalf("%T: %v", v, err)
			}
			var back any
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatal(err)
			}
			var result huma.ValidateResult
			huma.Validate(registry, s, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, back, &result)
			for _, err := range result.Errors {
				t.Errorf("%T: %v in %s", v, err, text)
			}
		}
		text, _ := json.Marshal(full.Interface())
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		described := registry.Map()[full.Type().Name()].Properties
		for name := range described {
			if _, ok := fields[name]; !ok && !slices.Contains([]string{"node_id", "run_id"}, name) {
				t.Errorf("%T: %s is described, and not in %s", v, name, text)
			}
		}
		for name := range fields {
			if described[name] == nil {
				t.Errorf("%T: %s is not described", v, name)
			}
		}
	}
}

// TestSchemas_null checks that request fields that are not set may be null, as the description declares.
func TestSchemas_null(t *testing.T) {
	t.Parallel()
	registry := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
	for of := range taken {
		schemaFor(registry, of)
		for name, s := range registry.Map()[of.Name()].Properties {
			var result huma.ValidateResult
			huma.Validate(registry, s, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, nil, &result)
			described := len(result.Errors) == 0
			got := reflect.New(of)
			err := decode([]byte(`{"`+name+`":null}`), got.Interface(), "")
			says, _ := json.Marshal(got.Elem().Interface())
			nothing, _ := json.Marshal(reflect.Zero(of).Interface())
			if !described || err != nil || string(says) != string(nothing) {
				t.Errorf("%s.%s is null: described is %v, read as %s, %v", of.Name(), name, described, says, err)
			}
		}
	}
}

// TestSchemas_names checks that an enumeration lists each name once, and no name without a value.
func TestSchemas_names(t *testing.T) {
	t.Parallel()
	text, _, err := described(t).Describe()
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	lists := 0
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				walk(at+"/"+name, inner)
			}
			names, _ := v["enum"].([]any)
			seen := make(map[any]bool)
			for _, name := range names {
				if seen[name] || name == "unknown" {
					t.Errorf("%s has %v more than once, or as no value", at, name)
				}
				seen[name] = true
			}
			lists += min(len(names), 1)
		case []any:
			for i, inner := range v {
				walk(at+"/"+strconv.Itoa(i), inner)
			}
		}
	}
	walk("", all)
	if lists < 10 {
		t.Errorf("%d types with names", lists)
	}
}

// TestDescribe_forGenerators checks both descriptions for what client generators need: a type for null, or nullable
// where OpenAPI 3.0 has none, and errors declared by their range.
func TestDescribe_forGenerators(t *testing.T) {
	t.Parallel()
	s := described(t)
	now, old, err := s.Describe()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"3.1": string(now), "3.0": string(old)} {
		var d struct {
			Paths map[string]map[string]struct{ Responses map[string]any }
		}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		for path, calls := range d.Paths {
			for method, call := range calls {
				for _, status := range []string{"4XX", "5XX", "default"} {
					if call.Responses[status] == nil {
						t.Errorf("%s: %s %s declares no %s", name, method, path, status)
					}
				}
			}
		}
		typed, nullable := strings.Count(text, `"type":"null"`), strings.Count(text, `"allOf"`)
		if name == "3.1" && (typed == 0 || strings.Contains(text, `{"enum":[null]}`)) || name == "3.0" &&
			(typed > 0 || nullable == 0) {
			t.Errorf("%s: %d types of null, %d nullable references", name, typed, nullable)
		}
	}
}
