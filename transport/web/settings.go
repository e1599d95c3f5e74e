package web

import (
	"context"
	"net/http"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// policyKeys registers the description of the settings' keys. It is not secret, and is the same on every node of a
// version: any caller that may ask for its own identity may read it.
func (s *Site) policyKeys() {
	add(s, route{method: http.MethodGet, path: "/v1/settings", call: rotav1.Auth_WhoAmI_FullMethodName,
		id:   "listSettings",
		says: "List every setting of queues, tenants and the cluster: its meaning, range, default, and value in each preset"},
		func(context.Context, *None) (*Answer[rest.PolicyKeys], error) {
			var tenant rota.TenantLimits
			var cluster rota.ClusterSettings
			return answer(rest.PolicyKeys{Presets: rota.Presets, Queue: keysOf(rota.PolicyDocs()),
				Tenant: keysOf(tenant.Docs()), Cluster: keysOf(cluster.Docs())}, nil), nil
		})
}

// keysOf returns the documentation of keys under their names with a unit, which JSON uses too.
func keysOf(docs []rota.PolicyDoc) (keys []rest.PolicyKey) {
	for _, d := range docs {
		key := rest.PolicyKey{Key: d.Key, Alias: d.Alias, Sentence: d.Meaning, Zero: d.Zero, Values: d.Values,
			Unit: d.Unit, Least: d.Least, Most: d.Most, Choices: d.Choices, Default: d.KeyDefaults[0]}
		if d.KeyValues != "" {
			key.Values, key.AliasValues = d.KeyValues, d.Values
		}
		if len(d.KeyDefaults) == len(rota.Presets) {
			key.Presets = make(map[string]string, len(rota.Presets))
			for i, preset := range rota.Presets {
				key.Presets[preset] = d.KeyDefaults[i]
			}
		}
		keys = append(keys, key)
	}
	return keys
}
