package web

import (
	"context"
	"net/http"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// policyKeys registers what the keys of settings are. It is no secret, and the same on every
// node of a version: who may ask who it is may ask for it.
func (s *Site) policyKeys() {
	add(s, route{method: http.MethodGet, path: "/v1/settings", call: rotav1.Auth_WhoAmI_FullMethodName, id: "listSettings",
		says: "Every key of a queue's policy: what it does, its range, and its value in each preset"},
		func(context.Context, *None) (*Answer[rest.PolicyKeys], error) {
			all := rest.PolicyKeys{Presets: rota.Presets}
			for _, d := range rota.PolicyDocs() {
				key := rest.PolicyKey{Key: d.Key, Alias: d.Alias, Sentence: d.Meaning, Zero: d.Zero, Values: d.Values, Unit: d.Unit,
					Least: d.Least, Most: d.Most, Choices: d.Choices, Presets: make(map[string]string, len(rota.Presets))}
				for i, preset := range rota.Presets {
					key.Presets[preset] = d.Defaults[i]
				}
				all.Queue = append(all.Queue, key)
			}
			return answer(all, nil), nil
		})
}
