package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

func protocolRows() []row {
	return []row{
		{group: "protocols", tool: "curl", does: "HTTP/1.1: submit, read", quick: true, most: time.Minute,
			try: curl("--http1.1")},
		{group: "protocols", tool: "curl", does: "`--http2-prior-knowledge`: submit, read", quick: true,
			most: time.Minute, try: curl("--http2-prior-knowledge")},
		{group: "protocols", tool: "grpcio", does: "gRPC, plain: submit, read", quick: true, most: time.Minute,
			try: grpcio("none")},
		{group: "protocols", tool: "grpcio", does: "gRPC with gzip: submit, read", quick: true, most: time.Minute,
			try: grpcio("gzip")},
	}
}

// curl submits and reads a job with curl in one version of HTTP.
func curl(version string) func(context.Context, *scene, *installed) (string, error) {
	return func(ctx context.Context, s *scene, t *installed) (string, error) {
		queue, err := s.queue(ctx)
		if err != nil {
			return "", err
		}
		job := s.url() + "/v1/jobs/" + queue
		in := command{dir: s.dir}
		put := []string{"-sS", "-i", version, "-X", "PUT", job, "-H", "Content-Type: application/json", "-d",
			`{"type":"t","queue":"` + queue + `"}`}
		said, err := in.run(ctx, t.program, put...)
		if err != nil {
			return "", err
		}
		if status := firstLine(said); !strings.Contains(status, " 201") {
			return "", fmt.Errorf("PUT of a job: got %q, want 201", status)
		}
		said, err = in.run(ctx, t.program, "-sS", version, job)
		if err != nil {
			return "", err
		}
		if !strings.Contains(said, `"state":"QUEUED"`) {
			return "", fmt.Errorf("GET of the job: got %s, want a queued job", said)
		}
		return "", nil
	}
}

// grpcio submits and reads a job with the generated messages of the Python client and grpcio's own channel.
func grpcio(compression string) func(context.Context, *scene, *installed) (string, error) {
	return func(ctx context.Context, s *scene, t *installed) (string, error) {
		queue, err := s.queue(ctx)
		if err != nil {
			return "", err
		}
		script, source, err := s.sources("grpcio.py", "sdk/python/src")
		if err != nil {
			return "", err
		}
		_, err = command{dir: s.dir, env: pythonEnv(source)}.run(ctx, t.python(), script, s.nodes[0].API, queue,
			compression)
		return "", err
	}
}

// sources returns the path of a program in testdata, and of a folder of the repository.
func (s *scene) sources(program, folder string) (script, source string, err error) {
	top, err := s.top()
	return filepath.Join(top, "test", "compat", "testdata", program), filepath.Join(top, folder), err
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}
