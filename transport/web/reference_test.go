package web

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
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
		"## Shared parameters\n\nSeveral calls share these parameters and list them by name only:\n\n|parameter|type||\n|---|---|---|\n")
	shared := map[string]int{}
	for _, item := range api.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if op != nil {
				for _, p := range op.Parameters {
					shared[parameterRow(p)]++
				}
			}
		}
	}
	maps.DeleteFunc(shared, func(row string, n int) bool { return n < sharedParameter || row == "" })
	for _, row := range slices.Sorted(maps.Keys(shared)) {
		b.WriteString(row)
	}
	b.WriteString("\n## Calls\n\n")
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		item := api.Paths[path]
		for _, c := range []struct {
			method string
			op     *huma.Operation
		}{{http.MethodGet, item.Get}, {http.MethodPost, item.Post}, {http.MethodPut, item.Put}, {http.MethodDelete,
			item.Delete}} {
			if c.op != nil {
				writeCall(&b, c.method, path, c.op, shared)
			}
		}
	}
	b.WriteString("## Bodies\n\n")
	schemas := api.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s := schemas[name]
		fmt.Fprintf(&b, "### %s\n\n%s\n\n|field|type||\n|---|---|---|\n", name, s.Description)
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[field]
			fmt.Fprintf(&b, "|`%s`|%s|%s|\n", field, typeOf(p), cell(p.Description))
		}
		b.WriteString("\n")
	}
	same(t, "http.md", append(bytes.TrimRight(b.Bytes(), "\n"), '\n'))
}

// sharedParameter is the number of calls from which a parameter with the same description is described only once.
const sharedParameter = 4

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

func writeCall(b *bytes.Buffer, method, path string, op *huma.Operation, shared map[string]int) {
	fmt.Fprintf(b, "### %s %s\n\n%s.", method, path, op.Summary)
	if op.RequestBody != nil {
		fmt.Fprintf(b, " Request body: %s.", typeOf(op.RequestBody.Content[mediaType].Schema))
	}
	if c := op.Responses["200"].Content[mediaType]; c != nil {
		fmt.Fprintf(b, " Response: %s.", typeOf(c.Schema))
	}
	if op.Responses["200"].Content[rawType] != nil {
		fmt.Fprintf(b, " Response: bytes, as `%s`.", rawType)
	}
	b.WriteString("\n\n")
	var own, named []string
	for _, p := range op.Parameters {
		switch row := parameterRow(p); {
		case row == "":
		case shared[row] > 0:
			named = append(named, "`"+p.Name+"`")
		default:
			own = append(own, row)
		}
	}
	if len(own) > 0 {
		b.WriteString("|parameter|type||\n|---|---|---|\n" + strings.Join(own, "") + "\n")
	}
	if len(named) > 0 {
		fmt.Fprintf(b, "[Shared parameters](#shared-parameters): %s.\n\n", strings.Join(named, ", "))
	}
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
		return "list of " + typeOf(s.Items)
	case s.Type == huma.TypeObject:
		if of, ok := s.AdditionalProperties.(*huma.Schema); ok {
			return "object of " + typeOf(of)
		}
		return "object"
	case len(s.Enum) > 0:
		return strings.Trim(fmt.Sprint(slices.DeleteFunc(slices.Clone(s.Enum), func(v any) bool { return v == nil })),
			"[]")
	case s.Type == "":
		return "any"
	}
	return s.Type
}
