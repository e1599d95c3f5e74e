package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// evil is the host of a web page that a user reads during work.
const evil = "evil.example"

// pageProbes are requests that a page can make a browser send.
func pageProbes() []probe {
	upgrade := func(origin string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Sec-WebSocket-Version", "13")
			r.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
		}
	}
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	return []probe{
		{name: "a name of its own that leads here", try: webRefused("GET", "/v1/events",
			func(r *http.Request) { r.Host = evil }, 421)},
		{name: "a request of its Origin", try: webRefused("GET", "/v1/events", set("Origin", "https://"+evil), 403)},
		{name: "a WebSocket of its Origin", try: webRefused("GET", "/v1/events", upgrade("https://"+evil), 403)},
		{name: "a WebSocket of Origin null", try: webRefused("GET", "/v1/events", upgrade("null"), 403)},
		{name: "a WebSocket without a credential", bites: true,
			try: webRefused("GET", "/v1/events?follow=1", upgrade(""), 401)},
		{name: "a preflight", try: webRefused("OPTIONS", "/v1/events", func(r *http.Request) {
			r.Header.Set("Origin", "https://"+evil)
			r.Header.Set("Access-Control-Request-Method", "GET")
			r.Header.Set("Access-Control-Request-Headers", "authorization")
		}, 403)},
		{name: "a call as a form is sent", try: webRefused("POST", "/rota.v1.Jobs/Submit",
			set("Content-Type", "text/plain"), 401, 403, 404, 405, 415)},
		{name: "a call as grpc-web", try: webRefused("POST", "/rota.v1.Cluster/Status", func(r *http.Request) {
			r.Header.Set("Content-Type", "application/grpc-web+proto")
			r.Header.Set("Origin", "https://"+evil)
		}, 403)},
		{name: "a token in a cookie", bites: true, try: withToken("Cookie", "token=")},
		{name: "a token in the query", try: func(ctx context.Context, s *scene) (string, error) {
			return webRefused("GET", "/v1/events?token="+s.tokens["root"]+"&access_token="+s.tokens["root"], nil, 400,
				401)(ctx, s)
		}},
		{name: "metrics by a name of its own", try: adminPage("/metrics", func(r *http.Request) { r.Host = evil },
			421)},
		{name: "profiles of its Origin", try: adminPage("/debug/pprof/heap", set("Origin", "https://"+evil), 403)},
		{name: "profiles without --pprof", try: adminPage("/debug/pprof/heap", func(*http.Request) {},
			404)},
	}
}

// withToken sends root's token in a header that the server does not read.
func withToken(header, before string) func(context.Context, *scene) (string, error) {
	return func(ctx context.Context, s *scene) (string, error) {
		return webRefused("GET", "/v1/events", func(r *http.Request) { r.Header.Set(header, before+s.tokens["root"]) },
			401)(ctx, s)
	}
}

// adminPage sends a request that must be refused to the admin port.
func adminPage(path string, change func(*http.Request), want int) func(context.Context, *scene) (string, error) {
	return func(ctx context.Context, s *scene) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+adminPort(s)+path, nil)
		if err != nil {
			return "", err
		}
		change(request)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
		if answer.StatusCode != want {
			return "", fmt.Errorf("it is answered by %d", answer.StatusCode)
		}
		return fmt.Sprintf("%d %s", answer.StatusCode, text), nil
	}
}
