package transport

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// TestConsole checks that the console is public, also if calls need a credential, and that nothing else is. Without a
// console there is no such path.
func TestConsole(t *testing.T) {
	t.Parallel()
	ui := func(w http.ResponseWriter, r *http.Request, origins []string) {
		_, _ = fmt.Fprint(w, r.URL.Path, " ", origins)
	}
	p := webOf(t, setup(t, func(o *Options) {
		o.Console, o.Core = ui, &fakeCore{apis: []string{"n1.lan:6470", "n2.lan:80"}}
	}))
	for path, want := range map[string]int{"/ui": 200, "/ui/": 200, "/ui/jobs/a%2Fb": 200, "/uix": 404, "/v1/ui": 404} {
		answer, text := p.call(http.MethodGet, path, "")
		if answer.StatusCode != want {
			t.Errorf("%s: got %d, want %d: %s", path, answer.StatusCode, want, text)
		}
	}
	if _, text := p.call(http.MethodGet, "/ui/x", ""); text != "/ui/x [http://n1.lan:6470 http://n2.lan]" {
		t.Errorf("the console is served as %q", text)
	}
	if answer, _ := p.call(http.MethodGet, "/ui/", "", "Host", "evil.example", "Origin",
		"http://evil.example"); answer.StatusCode != http.StatusForbidden {
		t.Errorf("for a page of a stranger: %d", answer.StatusCode)
	}
	without := webOf(t, setup(t))
	if answer, _ := without.call(http.MethodGet, "/ui/", ""); answer.StatusCode != http.StatusNotFound {
		t.Errorf("with --ui=false: %d", answer.StatusCode)
	}
}

// TestConsole_ofAnotherNode checks that a page loaded from one node reads and writes at another, and that a page of an
// origin that is not a node's does neither.
func TestConsole_ofAnotherNode(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.core.apis = []string{"n1.lan:6470", "n2.lan:6470"}
	p := webOf(t, b)
	for origin, may := range map[string]bool{
		"http://n1.lan:6470": true, "http://n2.lan:6470": true, "https://n1.lan:6470": false,
		"http://n1.lan:6471": false, "http://n1.lan": false, "null": false,
		"http://evil.example": false,
	} {
		for _, call := range []struct{ method, path, body string }{{"GET", "/v1/queues", ""},
			{"PUT", "/v1/jobs/j1", `{"queue":"q","type":"t"}`}, {"OPTIONS", "/v1/jobs/j1", ""}} {
			answer, text := p.call(call.method, call.path, call.body, "Origin", origin, "Sec-Fetch-Site", "cross-site",
				"Access-Control-Request-Method", "PUT")
			if got := answer.StatusCode < 300; got != may {
				t.Errorf("%s %s of %s: %d %s", call.method, call.path, origin, answer.StatusCode, text)
			}
			if got := answer.Header.Get("Access-Control-Allow-Origin"); may && got != origin {
				t.Errorf("%s %s of %s allows %q", call.method, call.path, origin, got)
			}
			if slices.Contains(answer.Header.Values("Access-Control-Allow-Credentials"), "true") {
				t.Error("cookies are let in")
			}
		}
	}
}
