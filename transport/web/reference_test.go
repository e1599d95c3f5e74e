package web

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rotasched/rota"
)

var update = flag.Bool("update", false, "write the descriptions of HTTP anew")

const references = "../../docs/reference"

func described(t *testing.T) *Site {
	t.Helper()
	s, err := New(Options{Node: "n1", Version: "v"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// same compares a file with its expected content, or writes it.
func same(t *testing.T, name string, want []byte) {
	t.Helper()
	path := filepath.Join(references, name)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/reference/%s is stale (%v): go test ./transport/web -run TestReference -update", name, err)
	}
}

// TestReference_openapi compares the committed description with the one that nodes serve.
func TestReference_openapi(t *testing.T) {
	t.Parallel()
	now, old, err := described(t).Describe()
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, now, "", " "); err != nil {
		t.Fatal(err)
	}
	same(t, "openapi.json", append(indented.Bytes(), '\n'))
	if !bytes.Contains(old, []byte(`"openapi":"3.0.3"`)) {
		t.Errorf("the description for older tools begins %.100s", old)
	}
}

// TestReference_http compares the page of the calls with the calls.
func TestReference_http(t *testing.T) {
	t.Parallel()
	api := described(t).api.OpenAPI()
	var b bytes.Buffer
	b.WriteString("# HTTP\n\n<!-- written by go test ./transport/web -run TestReference -update -->\n\n" +
		"The calls of `/v1` with their parameters and bodies. [The guide](../guides/http.md) describes what they have in common. A node\n" +
		"serves the same as [OpenAPI 3.1](openapi.json) at `/openapi.json`, and in 3.0, for older tools, at `/openapi-3.0.json`.\n\n" +
		"## Shared parameters\n\nSeveral calls have these parameters and list only their names, after \"Also\". There *read* stands for `consistency` and\n" +
		"`min_index`, *list* for these, `limit` and `cursor`, with `next_cursor` in the response. `T[]` is a list of T, `{T}` an object whose values are T.\n\n" +
		"|parameter|type||\n|---|---|---|\n")
	shared := map[string]int{}
	for _, item := range api.Paths {
		for _, op := range operations(item) {
			for _, p := range op.Parameters {
				shared[parameterRow(p)]++
			}
		}
	}
	maps.DeleteFunc(shared, func(row string, n int) bool { return n < sharedParameter || row == "" })
	for _, row := range slices.Sorted(maps.Keys(shared)) {
		b.WriteString(row)
	}
	b.WriteString("\n## Calls\n\n")
	p := newPage(&b, api)
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		fmt.Fprintf(&b, "### %s\n\n", path)
		for method, op := range operations(api.Paths[path]) {
			p.writeCall(method, op, shared)
		}
	}
	b.WriteString("## Types\n\nBodies have fields of these types.\n\n|type|JSON|\n|---|---|\n" +
		"|date|Two fields: `X_ms`, in Unix milliseconds, and `X_at`, the same in RFC 3339. Requests accept either.|\n" +
		"|moment|A date, and in `X_clock_ms` the same moment on the cluster clock.|\n" +
		"|decimal|A number with at most six digits after the point.|\n" +
		"|bytes|Text, or {\"base64\": \"…\"} for other bytes. An object, a list, a number, true or false is stored as its JSON text.|\n")
	for _, e := range namedTypes {
		fmt.Fprintf(&b, "|<a id=\"%s\"></a>%s|%s|\n", strings.ToLower(e.name), e.name, enumText(names(e.of)))
	}
	b.WriteString("\n## Bodies\n\n")
	p.writeBodies()
	for name := range p.schemas {
		if !p.written[name] {
			t.Errorf("docs/reference/http.md does not describe %s", name)
		}
	}
	same(t, "http.md", append(bytes.TrimRight(b.Bytes(), "\n"), '\n'))
}

// sharedParameter is the number of calls from which a parameter with the same description is described only once.
const sharedParameter = 3

// namedTypes are the enumerations that several bodies have, each described once.
var namedTypes = []struct {
	name string
	of   reflect.Type
}{{"State", reflect.TypeFor[rota.JobState]()}, {"Reason", reflect.TypeFor[rota.Reason]()},
	{"WorkerStatus", reflect.TypeFor[rota.WorkerStatus]()}, {"WorkflowState", reflect.TypeFor[rota.WorkflowState]()},
	{"EventKind", reflect.TypeFor[rota.EventKind]()}}

// operations returns the calls of a path with their methods, in the order of the page.
func operations(item *huma.PathItem) iter.Seq2[string, *huma.Operation] {
	return func(yield func(string, *huma.Operation) bool) {
		for i, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if op != nil && !yield([]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete}[i], op) {
				return
			}
		}
	}
}

// page writes the calls and their bodies.
type page struct {
	*bytes.Buffer
	schemas map[string]*huma.Schema
	tables  map[string]map[string]string // by schema and field
	// inlined are the bodies and responses of one call only, and the responses that are one list and its cursor: the call
	// has them.
	inlined, written map[string]bool
}

func newPage(b *bytes.Buffer, api *huma.OpenAPI) *page {
	p := &page{Buffer: b, schemas: api.Components.Schemas.Map(), tables: map[string]map[string]string{},
		inlined: map[string]bool{}, written: map[string]bool{}}
	uses, bodies := map[string]int{}, map[string]bool{}
	for name, s := range p.schemas {
		p.tables[name] = fieldRows(s)
		for _, property := range s.Properties {
			uses[componentOf(property)]++
		}
	}
	for _, item := range api.Paths {
		for _, op := range operations(item) {
			if op.RequestBody != nil {
				name := componentOf(op.RequestBody.Content[mediaType].Schema)
				uses[name]++
				bodies[name] = true
			}
			if c := op.Responses["200"].Content[mediaType]; c != nil && c.Schema.Ref != "" {
				uses[componentOf(c.Schema)]++
				bodies[componentOf(c.Schema)] = true
			}
		}
	}
	for name := range p.schemas {
		if base := baseOf(name, p.tables); base != "" {
			uses[base]++ // a section refers to it
			bodies[name] = false
		}
	}
	for name := range p.schemas {
		_, _, isList := p.listOf(name)
		p.inlined[name] = isList || bodies[name] && uses[name] == 1
	}
	return p
}

// componentOf returns the name of the schema that a field or a body has, alone, in a list or in an object.
func componentOf(s *huma.Schema) string {
	of, _ := s.AdditionalProperties.(*huma.Schema)
	switch {
	case isOrNull(s):
		return componentOf(s.AnyOf[0])
	case s.Items != nil:
		return componentOf(s.Items)
	case of != nil:
		return componentOf(of)
	}
	return strings.TrimPrefix(s.Ref, schemaPrefix)
}

// listOf returns the only field of a schema besides the cursor, and the type of its elements.
func (p *page) listOf(name string) (field, of string, ok bool) {
	s := p.schemas[name]
	if s == nil || len(s.Properties) != 2 || s.Properties["next_cursor"] == nil {
		return "", "", false
	}
	for field, property := range s.Properties {
		if field != "next_cursor" && property.Description == "" {
			return field, typeOf(property), true
		}
	}
	return "", "", false
}

// writeBodies writes a section for each schema. One that has the fields of another refers to it.
func (p *page) writeBodies() {
	for _, name := range slices.Sorted(maps.Keys(p.schemas)) {
		if p.inlined[name] {
			continue
		}
		p.written[name] = true
		rows := p.tables[name]
		fmt.Fprintf(p, "### %s\n\n%s\n\n", name, inJSON(p.schemas[name].Description, name, goNames(p.schemas[name])))
		if base := baseOf(name, p.tables); base != "" {
			fmt.Fprintf(p, "Fields: those of [%s](#%s)", base, strings.ToLower(base))
			rows = maps.Clone(rows)
			maps.DeleteFunc(rows, func(field, row string) bool { return p.tables[base][field] == row })
			if len(rows) > 0 {
				p.WriteString(", and these:\n\n")
			} else {
				p.WriteString(".\n\n")
			}
		}
		p.writeFields("field", rows)
	}
}

func (p *page) writeFields(what string, rows map[string]string) {
	if len(rows) == 0 {
		return
	}
	p.WriteString("|" + what + "|type||\n|---|---|---|\n")
	for _, field := range slices.Sorted(maps.Keys(rows)) {
		p.WriteString(rows[field])
	}
	p.WriteString("\n")
}

// baseOf returns the largest schema all of whose fields this one has, and most of them with the same description.
func baseOf(name string, tables map[string]map[string]string) (base string) {
	const fewest, others = 4, 2
	for _, other := range slices.Sorted(maps.Keys(tables)) {
		rows := tables[other]
		if other == name || len(rows) < fewest || len(rows) > len(tables[name]) || len(rows) <= len(tables[base]) ||
			len(rows) == len(tables[name]) && other > name {
			continue
		}
		has, same := 0, 0
		for field, row := range rows {
			if own, ok := tables[name][field]; ok {
				has++
				if own == row {
					same++
				}
			}
		}
		if has == len(rows) && same >= max(fewest, has-others) {
			base = other
		}
	}
	return base
}

// fieldRows returns the lines of a schema's table by field. A date or a moment is one line.
func fieldRows(s *huma.Schema) map[string]string {
	rows, inGo := make(map[string]string, len(s.Properties)), goNames(s)
	for field, p := range s.Properties {
		date, isAt := strings.CutSuffix(field, "_at")
		_, isDate := s.Properties[date+"_ms"]
		clock, isClock := strings.CutSuffix(field, "_clock_ms")
		if isAt && isDate || isClock && s.Properties[clock+"_ms"] != nil {
			continue
		}
		kind, name := typeOf(p), strings.TrimSuffix(field, "_ms")
		switch {
		case s.Properties[name+"_clock_ms"] != nil:
			kind = "moment"
		case name != field && s.Properties[name+"_at"] != nil:
			kind = "date"
		}
		text := p.Description
		if kind == "bytes" || kind == "decimal" || kind == "{decimal}" {
			text = ""
		}
		rows[field] = fmt.Sprintf("|`%s`|%s|%s|\n", field, kind, cell(inJSON(text, name, inGo)))
	}
	return rows
}

// goNames returns the fields of a schema by their plain names in Go.
func goNames(s *huma.Schema) map[string]string {
	inGo := make(map[string]string, len(s.Properties))
	for field := range s.Properties {
		inGo[plain(field)] = field
		if _, isDate := s.Properties[strings.TrimSuffix(field, "_ms")+"_at"]; isDate || strings.HasSuffix(field, "_ms") {
			inGo[plain(strings.TrimSuffix(field, "_ms"))] = field
		}
	}
	return inGo
}

// withoutName returns a doc comment without the name that it begins with, which is the name in Go of what it describes.
func withoutName(text, name string) string {
	first, rest, _ := strings.Cut(text, " ")
	if plain(first) != plain(name) {
		return text
	}
	verb, more, _ := strings.Cut(rest, " ")
	switch verb {
	case "and", "or", "of":
		return text
	case "is", "are":
		rest = more
	case "reports":
		if that, what, _ := strings.Cut(more, " "); that == "that" || that == "whether" {
			rest = "whether " + what
		}
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// onlyInGo removes what concerns programs in Go, and the parameter If-Match, which is described with the others.
var onlyInGo = strings.NewReplacer(
	" Pass it to client.IfMatch, or in the header If-Match, to change that version only.", "",
	" Only a JobChange changes it afterwards. CheckShape checks its ranges.", "", "; NewJobSpec sets DefaultPriority", "; the default is 5",
	" The zero value is no breaker.", "")

// goName matches a name as Go writes it.
var goName = regexp.MustCompile(`(^|[ (…])([A-Z][A-Za-z0-9]*)\b`)

// inJSON returns the doc comment of what has a name, without that name at its beginning, and with the names that fields
// have in JSON and the values of limits.
func inJSON(text, name string, fields map[string]string) string {
	text = onlyInGo.Replace(text)
	short := withoutName(text, name)
	first, rest := "", short
	if short != text {
		first, rest = short[:1], short[1:]
	}
	return first + goName.ReplaceAllStringFunc(rest, func(found string) string {
		word := strings.TrimLeft(found, " (…")
		before := strings.TrimSuffix(found, word)
		if value, ok := limitValues[word]; ok {
			return before + value
		}
		if field := fields[plain(word)]; field != "" && (word != strings.ToUpper(word) || len(word) < 4) {
			return before + "`" + field + "`"
		}
		return found
	})
}

// limitValues are the values of the constants that doc comments name.
var limitValues = map[string]string{
	"DefaultPriority": fmt.Sprint(rota.DefaultPriority), "DefaultQueue": string(rota.DefaultQueue),
	"DefaultTenant": string(rota.DefaultTenant), "MaxDataKeys": fmt.Sprint(rota.MaxDataKeys),
	"MaxFee": fmt.Sprint(rota.MaxFee), "MaxGateTimeout": fmt.Sprint(rota.MaxGateTimeout), "MaxHeaders": fmt.Sprint(rota.MaxHeaders),
	"MaxHeadersBytes": fmt.Sprint(rota.MaxHeadersBytes, " bytes"), "MaxKeyBackoff": fmt.Sprint(rota.MaxKeyBackoff),
	"MaxKeyOpen":     fmt.Sprint(time.Duration(rota.MaxKeyOpen) * time.Millisecond),
	"MaxKeyOutcomes": fmt.Sprint(rota.MaxKeyOutcomes),
	"MaxKeyProbes":   fmt.Sprint(rota.MaxKeyProbes), "MaxKeys": fmt.Sprint(rota.MaxKeys),
	"MaxLabelBytes": fmt.Sprint(rota.MaxLabelBytes, " bytes"), "MaxLabels": fmt.Sprint(rota.MaxLabels),
	"MaxTypesHandled": fmt.Sprint(rota.MaxTypesHandled), "MaxUniqueKeep": fmt.Sprint(rota.MaxUniqueKeep),
	"MergeNone": "none", "UniqueAfter": rota.UniqueAfter, "UniqueByArgs": rota.UniqueByArgs,
	"UniqueByQueue": rota.UniqueByQueue, "UniqueByType": rota.UniqueByType, "UniqueCollect": rota.UniqueCollect,
	"UniqueCompleted": rota.UniqueCompleted, "UniqueExisting": rota.UniqueExisting, "UniqueExtend": rota.UniqueExtend,
	"UniqueExtendMax": fmt.Sprint(rota.UniqueExtendMax), "UniquePending": rota.UniquePending,
	"UniqueRefuse": rota.UniqueRefuse, "UniqueReplace": rota.UniqueReplace, "UniqueRunning": rota.UniqueRunning,
}

func plain(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }

func enumText(values []any) string {
	return strings.Trim(fmt.Sprint(slices.DeleteFunc(slices.Clone(values), func(v any) bool { return v == nil })), "[]")
}

// parameterRow returns a parameter's line in a table, empty for one in the path.
func parameterRow(p *huma.Param) string {
	in := ""
	switch p.In {
	case "path":
		return ""
	case "header":
		in = " (header)"
	}
	return fmt.Sprintf("|`%s`%s|%s|%s|\n", p.Name, in, typeOf(p.Schema), cell(p.Description))
}

func (p *page) writeCall(method string, op *huma.Operation, shared map[string]int) {
	fmt.Fprintf(p, "**%s** %s.", method, op.Summary)
	body, response := "", ""
	if op.RequestBody != nil {
		schema := op.RequestBody.Content[mediaType].Schema
		if body = componentOf(schema); !p.inlined[body] {
			fmt.Fprintf(p, " Body: %s.", typeOf(schema))
		}
	}
	if c := op.Responses["200"].Content[mediaType]; c != nil {
		if field, of, ok := p.listOf(componentOf(c.Schema)); ok {
			fmt.Fprintf(p, " Response: `%s`: %s.", field, of)
			p.written[componentOf(c.Schema)] = true
		} else if response = componentOf(c.Schema); !p.inlined[response] {
			fmt.Fprintf(p, " Response: %s.", typeOf(c.Schema))
		}
	}
	if op.Responses["200"].Content[rawType] != nil {
		fmt.Fprintf(p, " Response: bytes, as `%s`.", rawType)
	}
	var own, named []string
	for _, parameter := range op.Parameters {
		switch row := parameterRow(parameter); {
		case row == "":
		case shared[row] > 0:
			named = append(named, "`"+parameter.Name+"`")
		default:
			own = append(own, row)
		}
	}
	if len(named) > 0 {
		also := strings.Join(named, ", ")
		also = strings.Replace(also, "`consistency`, `min_index`", "*read*", 1)
		fmt.Fprintf(p, " Also %s.", strings.Replace(also, "*read*, `limit`, `cursor`", "*list*", 1))
	}
	p.WriteString("\n\n")
	if len(own) > 0 {
		p.WriteString("|parameter|type||\n|---|---|---|\n" + strings.Join(own, "") + "\n")
	}
	p.writeInlined("body", body)
	p.writeInlined("response", response)
}

// writeInlined writes the fields of a body that only one call has, and its description but for the first sentence, which
// repeats the call's.
func (p *page) writeInlined(what, name string) {
	if !p.inlined[name] {
		return
	}
	p.written[name] = true
	if _, more, ok := strings.Cut(inJSON(p.schemas[name].Description, name, goNames(p.schemas[name])), ". "); ok {
		p.WriteString(more + "\n\n")
	}
	p.writeFields(what, p.tables[name])
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

func typeOf(s *huma.Schema) string {
	switch {
	case isOrNull(s):
		return typeOf(s.AnyOf[0])
	case s.Ref != "":
		name := strings.TrimPrefix(s.Ref, schemaPrefix)
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	case s.Items != nil:
		of := typeOf(s.Items)
		if strings.ContainsRune(of, ' ') {
			of = "(" + of + ")"
		}
		return of + "[]"
	case s.Type == huma.TypeObject:
		if of, ok := s.AdditionalProperties.(*huma.Schema); ok {
			return "{" + typeOf(of) + "}"
		}
		return "object"
	case len(s.Enum) > 0:
		text := enumText(s.Enum)
		for _, e := range namedTypes {
			if text == enumText(names(e.of)) {
				return "[" + e.name + "](#" + strings.ToLower(e.name) + ")"
			}
		}
		return text
	case s.Description == amount().Description:
		return "decimal"
	case s.Description == ownJSON[reflect.TypeFor[rota.Blob]()]().Description:
		return "bytes"
	case s.Type == "":
		return "any"
	}
	return s.Type
}
