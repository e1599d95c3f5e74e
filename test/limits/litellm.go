package main

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
)

const litellmVersion = "1.83.14"

var litellmSystem = system{
	name: "litellm", title: "LiteLLM proxy", has: map[kind]bool{short: true, long: true, costly: true}, server: "Redis",
	noJobs: true, perMinute: true,
	load: &load{keys: 50, trickle: 2, shortKeys: 1, ahead: 12, limits: limits{Concurrency: 3, Rate: 5, Burst: 5,
		Units: 100_000, UnitsBurst: 20_000}},
	settings: []string{
		"Two proxies for calls, not jobs, share one Redis; the faults of a worker are those of a proxy. Six clients for " +
			"each key send calls, so at most six are in flight, and send refused ones again after 300 ms.",
		redisSetting,
		"50 keys. `custom_auth` returns for each `max_parallel_requests=3`, `rpm_limit=300` and `tpm_limit=100000`, " +
			"limits per minute.",
		"`cache_params` of type Redis and `supported_call_types: []`; the rest has its defaults.",
		"Version 1.83.14 is the newest tried whose extra `proxy` is complete on PyPI; that of 1.110.2 is not.",
	},
	start: func(ctx context.Context, b *bench) (servers, error) {
		if err := b.pip(ctx, "litellm-"+litellmVersion, "litellm[proxy]=="+litellmVersion); err != nil {
			return nil, err
		}
		r, err := startRedis(ctx, b)
		return litellmServers{r}, err
	},
	client: func(b *bench, role string, _ bool) []string {
		return []string{filepath.Join(b.cache, "litellm-"+litellmVersion, "venv", "bin", "python"),
			filepath.Join(b.peers, "litellm_client.py"), role}
	},
}

type litellmServers struct{ *redisServer }

func (s litellmServers) version() string {
	return "litellm " + litellmVersion + ", " + s.redisServer.version()
}

// chat serves POST /v1/chat/completions as a model provider with the API of OpenAI. The message is a job.
func (p *provider) chat(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	var j job
	err := json.NewDecoder(r.Body).Decode(&asked)
	if err == nil && len(asked.Messages) == 1 {
		err = json.Unmarshal([]byte(asked.Messages[0].Content), &j)
	}
	if err != nil || j.Key == "" {
		http.Error(w, "want one message with a job", http.StatusBadRequest)
		return
	}
	spent := p.hold(r, call{Key: j.Key, Job: j.ID, Units: j.Units}, j.Ms)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"id": j.ID, "object": "chat.completion", "model": "stub",
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop",
			"message": map[string]any{"role": "assistant", "content": "ok"}}},
		"usage": map[string]any{"prompt_tokens": 0, "completion_tokens": spent, "total_tokens": spent}})
}
