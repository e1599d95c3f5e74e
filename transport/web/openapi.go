package web

import (
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/klauspost/compress/gzhttp"

	"github.com/rotasched/rota"
)

// Describe returns the description of the API for OpenAPI 3.1, and for 3.0.
func (s *Site) Describe() (now, old []byte, err error) {
	if now, err = s.api.OpenAPI().MarshalJSON(); err == nil {
		old, err = downgrade(s.api.OpenAPI())
	}
	if err != nil {
		return nil, nil, &rota.Error{Kind: rota.KindInternal, Op: "describe", Text: "the description of HTTP",
			Cause: err}
	}
	return now, old, nil
}

// downgrade returns the description for OpenAPI 3.0, which has no null type: a reference that may be null becomes
// nullable.
func downgrade(api *huma.OpenAPI) ([]byte, error) {
	text, err := api.Downgrade()
	if err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	replaceNull(v)
	return json.Marshal(v)
}

// replaceNull replaces schemas made by orNull with their OpenAPI 3.0 form, in place.
func replaceNull(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			replaceNull(item)
		}
	case map[string]any:
		if either, ok := v["anyOf"].([]any); ok && len(either) == 2 {
			if second, ok := either[1].(map[string]any); ok && second["type"] == nullType {
				delete(v, "anyOf")
				v["allOf"], v["nullable"] = either[:1], true
			}
		}
		for _, item := range v {
			replaceNull(item)
		}
	}
}

// These are the paths of the two descriptions, which are readable without rights.
const (
	descriptionPath    = "/openapi.json"
	oldDescriptionPath = "/openapi-3.0.json"
)

// own registers the paths that are not calls.
func (s *Site) own() error {
	now, old, err := s.Describe()
	if err != nil {
		return err
	}
	for path, text := range map[string][]byte{descriptionPath: now, oldDescriptionPath: old} {
		s.mux.HandleFunc(http.MethodGet+" "+path, func(w http.ResponseWriter, r *http.Request) {
			visit, err := s.options.Door.Enter(w, r, http.MethodGet+" "+path, callTime)
			if err != nil {
				Refuse(w, err, 0)
				return
			}
			defer visit.Leave()
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(text)
		})
		s.calls[http.MethodGet+" "+path] = ""
	}
	return nil
}

// compressFrom is the size from which responses are compressed.
const compressFrom = 1 << 10

// compressing compresses responses for clients that accept that.
func compressing(h http.Handler) (http.Handler, error) {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(compressFrom))
	if err != nil {
		return nil, &rota.Error{Kind: rota.KindInternal, Op: "compress", Text: "the compression of HTTP", Cause: err}
	}
	return wrap(h), nil
}
