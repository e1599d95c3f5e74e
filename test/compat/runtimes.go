package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rotasched/rota/test/rig"
)

func runtimeRows() []row {
	return []row{
		{group: "runtimes", tool: "Python client", does: "the client's quickstart: submit, work, complete", quick: true,
			most: 2 * time.Minute, try: pythonQuickstart},
		pythonRow("3.12"), pythonRow("3.13"), pythonRow("3.14"),
		{group: "runtimes", tool: "Bun", does: "the TypeScript client's quickstart", quick: true, most: 2 * time.Minute,
			try: typescriptQuickstart("run")},
		{group: "runtimes", tool: "Deno", does: "the TypeScript client's quickstart", quick: true,
			most: 2 * time.Minute,
			try:  typescriptQuickstart("run", "--allow-all", "--node-modules-dir=manual", "--no-lock")},
	}
}

// top returns the repository's root: the program runs there.
func (s *scene) top() (string, error) {
	top, err := os.Getwd()
	if err == nil {
		_, err = os.Stat(filepath.Join(top, "test", "compat", "testdata"))
	}
	return top, err
}

func pythonEnv(source string, more ...string) []string {
	return rig.Inherited(append(more, "PYTHONPATH="+source, "PYTHONDONTWRITEBYTECODE=1")...)
}

// pythonQuickstart runs examples/quickstart.py of the Python client on the machine's Python.
func pythonQuickstart(ctx context.Context, s *scene, _ *installed) (string, error) {
	if _, err := s.cluster(ctx); err != nil {
		return "", err
	}
	packages, err := s.install(ctx, "grpcio")
	if err != nil {
		return "", skipped("grpcio cannot be installed: " + err.Error())
	}
	top, err := s.top()
	if err != nil {
		return "", err
	}
	env := pythonEnv(filepath.Join(top, filepath.FromSlash("sdk/python/src")), "ROTA_ADDR="+s.nodes[0].API)
	said, err := command{dir: s.dir, env: env}.run(ctx, packages.python(),
		filepath.Join(top, filepath.FromSlash("sdk/python/examples/quickstart.py")))
	if err == nil && said == "" {
		err = errors.New("the quickstart printed nothing")
	}
	return "", err
}

func pythonRow(version string) row {
	return row{group: "runtimes", tool: "Python " + version,
		does: "the Python client's quickstart: submit, work, complete", quick: true, most: 2 * time.Minute,
		try: unpackedPython}
}

// unpackedPython runs the quickstart on an interpreter that was unpacked together with its C library.
func unpackedPython(ctx context.Context, s *scene, t *installed) (string, error) {
	if _, err := s.cluster(ctx); err != nil {
		return "", err
	}
	top, err := s.top()
	if err != nil {
		return "", err
	}
	source := filepath.Join(top, filepath.FromSlash("sdk/python/src"))
	env := pythonEnv(source+string(filepath.ListSeparator)+filepath.Join(t.dir, "packages"),
		"ROTA_ADDR="+s.nodes[0].API, "PYTHONHOME="+t.unpacked("usr"))
	said, err := command{dir: s.dir, env: env}.run(ctx, t.unpacked("usr/lib64/ld-linux-x86-64.so.2"), "--library-path",
		t.unpacked("usr/lib/x86_64-linux-gnu"), t.program,
		filepath.Join(top, filepath.FromSlash("sdk/python/examples/quickstart.py")))
	if err == nil && said == "" {
		err = errors.New("the quickstart printed nothing")
	}
	return "", err
}

// typescriptQuickstart runs examples/quickstart.ts of the TypeScript client: the runtime compiles it and the client.
func typescriptQuickstart(args ...string) func(context.Context, *scene, *installed) (string, error) {
	return func(ctx context.Context, s *scene, t *installed) (string, error) {
		if _, err := s.cluster(ctx); err != nil {
			return "", err
		}
		dir, err := s.typescriptClient(ctx)
		if err != nil {
			return "", err
		}
		env := rig.Inherited("ROTA_ADDR=" + s.nodes[0].API)
		said, err := command{dir: dir, env: env}.run(ctx, t.program,
			append(args[:len(args):len(args)], "quickstart.ts")...)
		if err != nil {
			return "", err
		}
		return "", contains(said, "made cat.jpg-128.webp")
	}
}

// typescriptClient installs the TypeScript client of this tree, compiled, and its packages below the cache.
func (s *scene) typescriptClient(ctx context.Context) (string, error) {
	top, err := s.top()
	if err != nil {
		return "", err
	}
	packages, err := s.install(ctx, "TypeScript client")
	if err != nil {
		return "", skipped("the client's packages cannot be installed: " + err.Error())
	}
	dir, err := s.temp("typescript")
	if err != nil {
		return "", err
	}
	client := filepath.Join(dir, "client")
	in := command{dir: dir}
	for _, step := range [][]string{
		{"mkdir", "client"},
		{"cp", "-r", filepath.Join(top, filepath.FromSlash("sdk/typescript/src")),
			filepath.Join(top, filepath.FromSlash("sdk/typescript/package.json")),
			filepath.Join(top, filepath.FromSlash("sdk/typescript/tsconfig.json")), client},
		{"cp", filepath.Join(top, filepath.FromSlash("sdk/typescript/examples/quickstart.ts")), dir},
		{"cp", "-r", packages.modules(), dir},
		{"mkdir", "-p", "node_modules/@rotasched"},
		{"ln", "-s", client, "node_modules/@rotasched/client"},
		{"node", "node_modules/typescript/bin/tsc", "-p", "client/tsconfig.json"},
	} {
		if _, err := in.run(ctx, step[0], step[1:]...); err != nil {
			return "", err
		}
	}
	return dir, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true,"type":"module"}`), 0o644)
}

// contains fails unless a text holds another.
func contains(text, part string) error {
	if !strings.Contains(text, part) {
		return fmt.Errorf("got %q, want %q in it", text, part)
	}
	return nil
}
