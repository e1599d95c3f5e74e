package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// webProbes are the attempts over HTTP, without a credential and with the one of a tenant.
func webProbes() []probe {
	asAcme := func(change func(r *http.Request, s *scene)) func(s *scene) func(*http.Request) {
		return func(s *scene) func(*http.Request) {
			return func(r *http.Request) {
				r.Header.Set("Authorization", "Bearer "+s.tokens["acme"])
				if change != nil {
					change(r, s)
				}
			}
		}
	}
	ask := func(name, method, path string, change func(s *scene) func(*http.Request), want ...int) probe {
		return probe{name: name, try: func(ctx context.Context, s *scene) (string, error) {
			return webRefused(method, path, change(s), want...)(ctx, s)
		}}
	}
	header := func(name, value string) func(*http.Request, *scene) {
		return func(r *http.Request, _ *scene) { r.Header.Add(name, value) }
	}
	all := []probe{
		{name: "each call of HTTP without a credential", bites: true, try: eachRoute},
		{name: "each read of HTTP by the other's names", bites: true, try: eachRead},
		ask("two tokens, over HTTP", "GET", "/v1/jobs",
			asAcme(func(r *http.Request, s *scene) { r.Header.Add("Authorization", "Bearer "+s.tokens["root"]) }), 401),
		ask("two tokens in one header", "GET", "/v1/jobs", asAcme(func(r *http.Request, s *scene) {
			r.Header.Set("Authorization", "Bearer "+s.tokens["acme"]+", Bearer "+s.tokens["root"])
		}), 401),
		ask("a deletion disguised as a POST", "POST", "/v1/jobs/umbrella-done",
			asAcme(header("X-Http-Method-Override", "DELETE")), 405),
		ask("a deletion in the query", "POST", "/v1/jobs/umbrella-done?_method=DELETE", asAcme(nil), 405),
		ask("a host behind another", "GET", "/v1/jobs/umbrella-idle", asAcme(header("X-Forwarded-Host", "localhost")),
			404),
		ask("a user that a proxy might name", "GET", "/v1/jobs/umbrella-idle",
			asAcme(header("X-Forwarded-User", "root")), 404),
		ask("headers without end", "GET", "/v1/jobs", asAcme(header("X-Long", strings.Repeat("a", 20<<10))), 431),
		ask("an address without end", "GET", "/v1/jobs?q="+strings.Repeat("a", 9<<10), asAcme(nil), 414),
	}
	for _, path := range []string{"%75mbrella-idle", "x%2f..%2fumbrella-idle", "..%2fjobs%2fumbrella-idle",
		"umbrella-idle%00", "umbrella-idle%2f",
		"umbrella-idle;a=b", "umbrella-idle%0d%0aX:%20y", "./umbrella-idle", "x/../umbrella-idle",
		"%2e%2e/jobs/umbrella-idle"} {
		all = append(all, ask("a job as "+path, "GET", "/v1/jobs/"+path, asAcme(nil), 400, 404))
	}
	return all
}

// routes returns the HTTP calls as the node describes them: methods by path.
func (s *scene) routes(ctx context.Context) (map[string][]string, error) {
	var described struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	code, text, _, err := s.web(ctx, http.MethodGet, "/openapi.json", nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("the description of HTTP is answered by %d", code)
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &described)
	}
	all := make(map[string][]string)
	for path, item := range described.Paths {
		for method := range item {
			all[path] = append(all[path], strings.ToUpper(method))
		}
	}
	if err == nil && len(all) < 50 {
		err = fmt.Errorf("the description has %d paths: this probe proves nothing", len(all))
	}
	return all, err
}

// forAnybody are the calls that show a stranger only public data, or need no credential because they serve to get one.
var forAnybody = map[string]bool{"GET /v1/settings": true, "GET /v1/whoami": true, "POST /v1/exchange": true}

// routeOf fills the parameters of a path in.
func routeOf(path, id string) string {
	return strings.NewReplacer("{id}", id, "{role}", "root", "{node}", "a", "{lease}", strings.Repeat("ab", 32),
		"{epoch}", "1").Replace(path)
}

// eachRoute makes every HTTP call without a credential.
func eachRoute(ctx context.Context, s *scene) (said string, err error) {
	routes, err := s.routes(ctx)
	if err != nil {
		return "", err
	}
	calls := 0
	for _, path := range slices.Sorted(maps.Keys(routes)) {
		for _, method := range routes[path] {
			name := method + " " + path
			if forAnybody[name] || s.plant && method != http.MethodGet {
				continue
			}
			code, body, _, err := s.web(ctx, method, routeOf(path, "umbrella-idle"), nil)
			switch {
			case err != nil:
				return "", fmt.Errorf("%s: %w", name, err)
			case strings.HasPrefix(path, "/v1/sessions") &&
				code >= 400: // of any caller with a credential: there is none
			case code != http.StatusUnauthorized:
				return "", fmt.Errorf("%s is answered by %d: %s", name, code, short(body))
			}
			calls, said = calls+1, body
		}
	}
	return fmt.Sprintf("%d calls: %s", calls, said), nil
}

// eachRead reads everything available over HTTP with the token of a tenant, by the names of another tenant's objects.
func eachRead(ctx context.Context, s *scene) (string, error) {
	routes, err := s.routes(ctx)
	if err != nil {
		return "", err
	}
	reads := 0
	show := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+s.tokens["acme"]) }
	for _, path := range slices.Sorted(maps.Keys(routes)) {
		if !slices.Contains(routes[path], http.MethodGet) || path == "/v1/live" {
			continue
		}
		for _, id := range []string{"umbrella-idle", "umbrella-done", "umbrella-flow", "umbrella-flow%2Fa",
			"umbrella-flow%2Fb@run", "umbrella-w", "umbrella-daily", "umbrella-batch", "umbrella"} {
			if !strings.Contains(path, "{id}") && id != "umbrella-idle" {
				continue
			}
			code, body, _, err := s.web(ctx, http.MethodGet, routeOf(path, id), show)
			if err != nil {
				return "", fmt.Errorf("%s of %s: %w", path, id, err)
			}
			asked, _, _ := strings.Cut(id, "%")
			for _, what := range []string{secretData, "umbrella-"} {
				if strings.Contains(strings.ReplaceAll(body, asked, ""), what) || code == http.StatusOK &&
					strings.HasPrefix(id, "umbrella-") && strings.Contains(path, "{id}") {
					return "", fmt.Errorf("%s of %s is answered by %d: %s", path, id, code, short(body))
				}
			}
			reads++
		}
	}
	if reads < 100 {
		return "", errors.New("too few reads: this probe proves nothing")
	}
	return fmt.Sprintf("%d reads hold nothing of the other's", reads), nil
}
