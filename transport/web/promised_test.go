package web

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// promises returns what clients of the API may rely on, one per line: losing a line breaks one of them.
func promises(api *huma.OpenAPI) []string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for path, item := range api.Paths {
		for method, op := range map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post,
			http.MethodPut: item.Put, http.MethodDelete: item.Delete} {
			if op == nil {
				continue
			}
			call := method + " " + path
			say("%s", call)
			for _, p := range op.Parameters {
				at := fmt.Sprintf("%s takes %s %s", call, p.In, p.Name)
				say("%s: %s", at, shape(p.Schema))
				if !p.Required {
					say("%s, or leaves it out", at)
				}
				for _, v := range p.Schema.Enum {
					say("%s = %v", at, v)
				}
			}
			if body := op.RequestBody; body != nil {
				for kind, content := range body.Content {
					say("%s takes a body of %s: %s", call, kind, shape(content.Schema))
				}
			}
			if op.RequestBody == nil || !op.RequestBody.Required {
				say("%s takes no body", call)
			}
			for status, response := range op.Responses {
				for kind, content := range response.Content {
					say("%s answers %s with %s: %s", call, status, kind, shape(content.Schema))
				}
				for name := range response.Headers {
					say("%s answers %s with the header %s", call, status, name)
				}
			}
		}
	}
	for name, s := range api.Components.Schemas.Map() {
		for field, p := range s.Properties {
			at := name + "." + field
			say("%s: %s", at, shape(p))
			switch {
			case slices.Contains(s.Required, field):
				say("%s is always there", at)
			case s.AdditionalProperties == false:
				say("%s may be left out", at)
			}
			for _, v := range p.Enum {
				if v != nil {
					say("%s = %v", at, v)
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// shape returns the full name of a type, without the contents of its components.
func shape(s *huma.Schema) string {
	if s == nil {
		return "anything"
	}
	switch {
	case isOrNull(s):
		return shape(s.AnyOf[0])
	case s.Ref != "":
		return strings.TrimPrefix(s.Ref, schemaPrefix)
	case s.Items != nil:
		return "list of " + shape(s.Items)
	}
	if of, ok := s.AdditionalProperties.(*huma.Schema); ok {
		return "object of " + shape(of)
	}
	text := cmp.Or(s.Type, "anything")
	if s.Format != "" {
		text += " " + s.Format
	}
	if s.ContentEncoding != "" {
		text += " in " + s.ContentEncoding
	}
	return text
}

// isOrNull reports whether it is a reference that orNull made nullable: its name is that of the referenced type.
func isOrNull(s *huma.Schema) bool { return len(s.AnyOf) == 2 && len(s.AnyOf[1].Enum) == 1 }

// broken returns the promises that are not kept.
func broken(promised []string, now []string) (lost []string) {
	for _, line := range promised {
		if _, kept := slices.BinarySearch(now, line); !kept && line != "" {
			lost = append(lost, line)
		}
	}
	return lost
}

// TestReference_onlyGrows checks that the API keeps all that it has ever promised (docs/adr/0068): /v1 only grows.
// Additions become promises with -update; a line is removed by hand, two minor versions after the removal of its call
// or field was announced.
func TestReference_onlyGrows(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "promised.txt")
	text, err := os.ReadFile(path)
	if err != nil && !(*update && errors.Is(err, fs.ErrNotExist)) {
		t.Fatal(err)
	}
	promised := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	now := promises(described(t).api.OpenAPI())
	if lost := broken(promised, now); len(lost) > 0 {
		t.Errorf("%d promises to clients are broken, of which the first are:\n%s", len(lost),
			strings.Join(lost[:min(len(lost), 20)], "\n"))
	}
	if news := broken(now, slices.Sorted(slices.Values(promised))); len(news) > 0 {
		if *update {
			all := slices.Concat(promised, now)
			slices.Sort(all)
			text := strings.TrimLeft(strings.Join(slices.Compact(all), "\n"), "\n") + "\n"
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("%d promises are new, the first is %q: go test ./transport/web -run TestReference -update", len(news),
			news[0])
	}
}

// TestPromises_bite checks that losing anything that a client may rely on breaks a promise, and that growth breaks
// none.
func TestPromises_bite(t *testing.T) {
	t.Parallel()
	before := promises(described(t).api.OpenAPI())
	schema := func(api *huma.OpenAPI, name string) *huma.Schema { return api.Components.Schemas.Map()[name] }
	parameter := func(api *huma.OpenAPI, path, name string) *huma.Param {
		for _, p := range api.Paths[path].Get.Parameters {
			if p.Name == name {
				return p
			}
		}
		t.Fatalf("%s has no %s", path, name)
		return nil
	}
	for name, c := range map[string]struct {
		change func(*huma.OpenAPI)
		breaks string
	}{
		"a call is gone": {func(a *huma.OpenAPI) { a.Paths["/v1/jobs/{id}"].Delete = nil }, "DELETE /v1/jobs/{id}"},
		"a path is gone": {func(a *huma.OpenAPI) { delete(a.Paths, "/v1/stats") }, "GET /v1/stats"},
		"a parameter is gone": {func(a *huma.OpenAPI) { a.Paths["/v1/jobs"].Get.Parameters = a.Paths["/v1/jobs"].Get.Parameters[1:] },
			"GET /v1/jobs takes query"},
		"a parameter must be given": {func(a *huma.OpenAPI) { parameter(a, "/v1/jobs", "q").Required = true },
			"leaves it out"},
		"a parameter is of another type": {func(a *huma.OpenAPI) {
			parameter(a, "/v1/jobs", "limit").Schema.Type = huma.TypeString
		}, "query limit: integer"},
		"a choice is gone": {func(a *huma.OpenAPI) { parameter(a, "/v1/jobs", "view").Schema.Enum = []any{"brief"} },
			"query view = full"},
		"a body must be given": {func(a *huma.OpenAPI) { a.Paths["/v1/jobs/{id}/retry"].Post.RequestBody.Required = true },
			"takes no body"},
		"a status is gone": {func(a *huma.OpenAPI) { delete(a.Paths["/v1/jobs/{id}"].Put.Responses, "201") },
			"answers 201"},
		"a header is gone": {func(a *huma.OpenAPI) {
			delete(a.Paths["/v1/jobs"].Get.Responses["200"].Headers, "Rota-Index")
		}, "header Rota-Index"},
		"a field is gone": {func(a *huma.OpenAPI) { delete(schema(a, "Job").Properties, "state") },
			"Job.state: string"},
		"a field is not always there": {func(a *huma.OpenAPI) { schema(a, "Job").Required = nil }, "is always there"},
		"a field is of another type": {func(a *huma.OpenAPI) {
			schema(a, "Job").Properties["priority"].Type = huma.TypeString
		}, "Job.priority: integer"},
		"a name is gone": {func(a *huma.OpenAPI) { p := schema(a, "Job").Properties["state"]; p.Enum = p.Enum[1:] },
			"Job.state = "},
		"a field must be given": {func(a *huma.OpenAPI) { schema(a, "JobSpec").Required = []string{"keys"} },
			"JobSpec.keys may be left out"},
		"growth": {func(a *huma.OpenAPI) {
			schema(a, "Job").Properties["more"] = &huma.Schema{Type: huma.TypeString}
			a.Paths["/v1/more"] = &huma.PathItem{Get: a.Paths["/v1/stats"].Get}
		}, ""},
	} {
		api := described(t).api.OpenAPI()
		api.Paths = maps.Clone(api.Paths)
		c.change(api)
		lost := broken(before, promises(api))
		if bites := slices.ContainsFunc(lost, func(line string) bool {
			return strings.Contains(line, c.breaks)
		}); (c.breaks != "") != (len(lost) > 0) || c.breaks != "" && !bites {
			t.Errorf("%s: broken are %q", name, lost[:min(len(lost), 5)])
		}
	}
}
