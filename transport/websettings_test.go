package transport

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
)

// TestHTTP_settings checks that the keys of all settings are documented, each in the form that the setting call
// accepts.
func TestHTTP_settings(t *testing.T) {
	t.Parallel()
	web := wiredOf(t, setup(t))
	answer, text := web.call("GET", "/v1/settings", "")
	var got rest.PolicyKeys
	if err := json.Unmarshal([]byte(text), &got); err != nil || answer.StatusCode != 200 {
		t.Fatalf("%d, %v: %s", answer.StatusCode, err, text)
	}
	for path, of := range map[string]struct {
		keys []rest.PolicyKey
		most int
	}{"/v1/queues/q": {got.Queue, 50}, "/v1/tenants/t": {got.Tenant,
		len(rota.TenantKeys()) - 1}, "/v1/cluster": {got.Cluster, len(rota.ClusterKeys()) - 1}} {
		if len(of.keys) <= of.most {
			t.Errorf("%s has %d keys", path, len(of.keys))
		}
		for _, k := range of.keys {
			values := map[string]string{"": k.Default}
			for preset, value := range k.Presets {
				values[preset] = value
			}
			for preset, value := range values {
				body, _ := json.Marshal(rest.Settings{Preset: preset,
					Set: map[string]rest.Value{k.Key: rest.Value(value)}})
				if answer, text := web.call("PUT", path, string(body)); answer.StatusCode != 200 {
					t.Errorf("%s: %s=%s is documented but refused: %s", path, k.Key, value, text)
				}
			}
			ratio := k.Unit == "permille" || k.Unit == "ppm"
			if ratio != (k.AliasValues != "") || ratio && (!strings.Contains(k.AliasValues, "ratio") ||
				strings.Contains(k.Values, "ratio")) {
				t.Errorf("%s of unit %s takes %q, and %s %q", k.Key, k.Unit, k.Values, k.Alias, k.AliasValues)
			}
		}
	}
}
