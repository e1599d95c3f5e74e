package web

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
)

const (
	schemaPrefix = "#/components/schemas/"
	// nullType is the JSON type with null as its only value.
	nullType = "null"
)

// Out is a response body.
type Out[T any] struct{ value T }

// Schema implements huma.SchemaProvider.
func (Out[T]) Schema(r huma.Registry) *huma.Schema { return schemaOf[T](r) }

func (o Out[T]) inner() any { return o.value }

// schemaOf describes the JSON of a type as package rota encodes it (moment_json.go): a Moment x is x_ms, x_at and
// x_clock_ms, a Date x_ms and x_at, a Duration a whole number.
func schemaOf[T any](r huma.Registry) *huma.Schema { return schemaFor(r, reflect.TypeFor[T]()) }

var (
	textType = reflect.TypeFor[encoding.TextMarshaler]()
	jsonType = reflect.TypeFor[json.Marshaler]()
	rootPath = reflect.TypeFor[rota.Job]().PkgPath()
	ownJSON  = map[reflect.Type]func() *huma.Schema{
		reflect.TypeFor[rota.Blob](): func() *huma.Schema {
			return &huma.Schema{Description: `Bytes: text as it is, other bytes as {"base64": "…"}. Also accepted: an object, a list, a number or ` +
				`true or false, stored as its JSON text.`}
		},
		reflect.TypeFor[rota.Score](): func() *huma.Schema { return &huma.Schema{Description: "The ranking's number."} },
		reflect.TypeFor[rota.Reasoning](): func() *huma.Schema {
			return openObject("The rule by which the worker was chosen, with its figures.")
		},
		reflect.TypeFor[rota.QueuePolicy](): func() *huma.Schema {
			s := openObject("Preset and every key of the queue's policy.")
			text, _ := json.Marshal(rota.StandardPolicy()) // numbers and words only
			var sample map[string]any
			_ = json.Unmarshal(text, &sample)
			s.Properties = make(map[string]*huma.Schema, len(sample))
			for name, v := range sample {
				s.Properties[name] = &huma.Schema{Type: kindOf(v)}
			}
			return s
		},
		reflect.TypeFor[rota.Costs](): func() *huma.Schema {
			return &huma.Schema{Type: huma.TypeObject, Description: "Amounts by name.", AdditionalProperties: amount()}
		},
		reflect.TypeFor[rota.Cost](): amount,
		reflect.TypeFor[rota.Reasons](): func() *huma.Schema {
			return &huma.Schema{Type: huma.TypeArray, Description: "Reasons why an attempt ended.",
				Items: &huma.Schema{Type: huma.TypeString}}
		},
		reflect.TypeFor[rest.Value](): func() *huma.Schema {
			return &huma.Schema{Description: "A string, a number, true or false."}
		},
	}
	// taken holds the types of request bodies, whose fields are all known and all optional.
	taken = map[reflect.Type]bool{reflect.TypeFor[rota.JobSpec](): true, reflect.TypeFor[rota.RetryPolicy](): true,
		reflect.TypeFor[rota.Unique](): true, reflect.TypeFor[rest.JobSubmission](): true,
		reflect.TypeFor[rest.JobRetry]():  true,
		reflect.TypeFor[rest.JobChange](): true, reflect.TypeFor[rest.Settings](): true,
		reflect.TypeFor[rest.BatchOpening](): true, reflect.TypeFor[rest.ModeChange](): true,
		reflect.TypeFor[rota.ScheduleSpec](): true,
		reflect.TypeFor[rest.Acquire]():      true, reflect.TypeFor[rota.WorkerSpec](): true,
		reflect.TypeFor[rest.WorkerBeat]():      true,
		reflect.TypeFor[rest.LeaseCompletion](): true, reflect.TypeFor[rest.LeaseFailure](): true,
		reflect.TypeFor[rest.LeaseDecline](): true, reflect.TypeFor[rest.LeaseProgress](): true,
		reflect.TypeFor[rest.SchedulePause](): true,
		reflect.TypeFor[rest.TokenSetting]():  true, reflect.TypeFor[rest.Backfill](): true,
		reflect.TypeFor[rest.RoleSetting]():   true,
		reflect.TypeFor[rest.IssuerSetting](): true, reflect.TypeFor[rest.Anonymous](): true,
		reflect.TypeFor[rest.Exchange](): true,
		reflect.TypeFor[rest.Session]():  true, reflect.TypeFor[rest.SessionClaim](): true,
		reflect.TypeFor[rest.JobIDs](): true, reflect.TypeFor[rest.JobRetries](): true,
		reflect.TypeFor[rest.ProofReport](): true,
		reflect.TypeFor[rota.PlanSpec]():    true, reflect.TypeFor[rota.KeyRule](): true,
		reflect.TypeFor[rota.Budget](): true, reflect.TypeFor[rest.BudgetGrant](): true,
		reflect.TypeFor[rest.BudgetReset](): true,
		reflect.TypeFor[rest.KeySkip]():     true, reflect.TypeFor[rest.KeyPauseSetting](): true,
		reflect.TypeFor[rest.KeyResumption](): true, reflect.TypeFor[rota.KeyBreaker](): true,
		reflect.TypeFor[rota.WorkflowSpec](): true, reflect.TypeFor[rota.NodeSpec](): true,
		reflect.TypeFor[rota.Gate](): true,
		reflect.TypeFor[rota.Edge](): true, reflect.TypeFor[rest.WorkflowRetry](): true,
		reflect.TypeFor[rest.Signal]():   true,
		reflect.TypeFor[rest.Handover](): true, reflect.TypeFor[rota.TZInstall](): true,
		reflect.TypeFor[rota.WebhookSpec](): true, reflect.TypeFor[rest.WebhookPause](): true,
		reflect.TypeFor[rest.ScheduleResumption](): true, reflect.TypeFor[rest.ScheduleRun](): true}
)

// amount describes a cost.
func amount() *huma.Schema {
	least, most := 0.0, float64(rota.MaxCost/rota.CostUnit)
	return &huma.Schema{Type: huma.TypeNumber, Minimum: &least, Maximum: &most,
		Description: "A decimal with at most six digits after the point."}
}

func openObject(description string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Description: description, AdditionalProperties: true}
}

// kindOf names the JSON type of a value read from JSON.
func kindOf(v any) string {
	switch v.(type) {
	case string:
		return huma.TypeString
	case bool:
		return huma.TypeBoolean
	case float64:
		return huma.TypeNumber
	case []any:
		return huma.TypeArray
	}
	return huma.TypeObject
}

func schemaFor(r huma.Registry, t reflect.Type) *huma.Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if own := ownJSON[t]; own != nil {
		return own()
	}
	if t.Kind() == reflect.Struct && !t.Implements(textType) {
		return component(r, t)
	}
	switch {
	case t.Implements(textType):
		return &huma.Schema{Type: huma.TypeString, Enum: names(t)}
	case t.Implements(jsonType):
		return &huma.Schema{}
	}
	switch t.Kind() {
	case reflect.String:
		return &huma.Schema{Type: huma.TypeString}
	case reflect.Bool:
		return &huma.Schema{Type: huma.TypeBoolean}
	case reflect.Float64:
		return &huma.Schema{Type: huma.TypeNumber}
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint8, reflect.Uint16:
		return &huma.Schema{Type: huma.TypeInteger, Format: "int32"}
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return &huma.Schema{Type: huma.TypeInteger, Format: "int64"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && !t.Elem().Implements(textType) {
			return &huma.Schema{Type: huma.TypeString, ContentEncoding: "base64"}
		}
		return &huma.Schema{Type: huma.TypeArray, Items: schemaFor(r, t.Elem())}
	case reflect.Map:
		return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: schemaFor(r, t.Elem())}
	}
	return &huma.Schema{}
}

// component describes a struct once and returns a reference to it.
func component(r huma.Registry, t reflect.Type) *huma.Schema {
	name := t.Name()
	ref := &huma.Schema{Ref: schemaPrefix + name}
	if known := r.Map()[name]; known != nil {
		if known.Description != sentence(t, "") {
			panic("web: two types have the schema " + name)
		}
		return ref
	}
	s := &huma.Schema{Type: huma.TypeObject, Description: sentence(t, ""), Properties: make(map[string]*huma.Schema)}
	r.Map()[name] = s
	if taken[t] {
		s.AdditionalProperties = false
	}
	(&describer{r, s, !taken[t]}).fields(t)
	s.PrecomputeMessages()
	return ref
}

// describer adds fields to the schema of a struct.
type describer struct {
	registry huma.Registry
	schema   *huma.Schema
	// goesOut makes fields required that are always written.
	goesOut bool
}

func (d *describer) fields(t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && !tagged:
			d.fields(f.Type)
			continue
		case !f.IsExported() || tag == "-":
			continue
		case name == "":
			name = f.Name
		}
		says, date := sentence(t, f.Name), strings.TrimSuffix(name, "_ms")
		switch f.Type {
		case reflect.TypeFor[rota.Moment]():
			d.date(name, says)
			d.put(name+"_clock_ms", says, &huma.Schema{Type: huma.TypeInteger, Format: "int64"}, false)
		case reflect.TypeFor[rota.Date](), reflect.TypeFor[time.Time]():
			d.date(date, says)
		case reflect.TypeFor[time.Duration]():
			d.put(name, says, &huma.Schema{Type: huma.TypeInteger, Format: "int64"}, !strings.Contains(options, "omit"))
		default:
			s := schemaFor(d.registry, f.Type)
			if strings.Contains(options, "raw") {
				s = &huma.Schema{}
			}
			if f.Type.Kind() == reflect.Pointer || f.Type.Kind() == reflect.Slice &&
				f.Type.Elem().Kind() != reflect.Uint8 {
				nullable(s)
			}
			d.put(name, says, s, !strings.Contains(options, "omit"))
		}
	}
}

// nullable lets a field be null, unless a reference declares that already.
func nullable(s *huma.Schema) {
	if s.Ref == "" && s.Type != "" {
		s.Nullable = true
	}
}

// orNull lets a request's field be null, which means the same as omitting it: encoding/json treats it so, and many
// languages write null for unset fields.
func orNull(s *huma.Schema) *huma.Schema {
	null := []any{nil}
	switch {
	case s.Ref != "":
		// The type is for client generators, which recognize null only by it.
		return &huma.Schema{AnyOf: []*huma.Schema{s, {Type: nullType, Enum: null}}}
	case len(s.Enum) > 0:
		s.Enum = append(s.Enum, nil)
	}
	nullable(s)
	return s
}

func (d *describer) date(name, says string) {
	d.put(name+"_ms", says, &huma.Schema{Type: huma.TypeInteger, Format: "int64"}, false)
	d.put(name+"_at", "The same as "+name+"_ms, in RFC 3339.", &huma.Schema{Type: huma.TypeString, Format: "date-time"},
		false)
}

func (d *describer) put(name, says string, s *huma.Schema, always bool) {
	if _, outer := d.schema.Properties[name]; outer {
		return
	}
	if s.Ref == "" && s.Description == "" {
		s.Description = says
	}
	if !d.goesOut {
		s = orNull(s)
	}
	d.schema.Properties[name] = s
	if always && d.goesOut {
		d.schema.Required = append(d.schema.Required, name)
	}
}

// sentence returns the doc comment of a type or of one of its fields.
func sentence(t reflect.Type, field string) string {
	name := t.Name()
	if t.PkgPath() != rootPath {
		name = "rest." + name
	}
	if field != "" {
		name += "." + field
	}
	return rest.Sentence(name)
}

// readsBack reports whether a text reads back as its value: the text of a missing value, such as unknown, does not.
func readsBack(v reflect.Value, text []byte) bool {
	again := reflect.New(v.Type())
	reads, ok := again.Interface().(encoding.TextUnmarshaler)
	return !ok || reads.UnmarshalText(text) == nil && again.Elem().Uint() == v.Uint()
}

// names returns the values of an enumeration type, nil for other types.
func names(t reflect.Type) (all []any) {
	if t.Kind() != reflect.Uint8 {
		return nil
	}
	for i := range 256 {
		v := reflect.New(t).Elem()
		v.SetUint(uint64(i))
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil || strings.HasSuffix(string(text), "_"+strconv.Itoa(i)) || !readsBack(v, text) {
			break
		}
		if len(text) > 0 {
			all = append(all, string(text))
		}
	}
	return all
}
