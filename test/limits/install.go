package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// maxInstall limits one installation.
const maxInstall = 15 * time.Minute

// install fills a directory of the cache once. A directory without the file "ready" is made again.
func (b *bench) install(ctx context.Context, name string, fetch func(ctx context.Context, dir string) error) error {
	dir := filepath.Join(b.cache, name)
	ready := filepath.Join(dir, "ready")
	if _, err := os.Stat(ready); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxInstall)
	defer cancel()
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	if err := fetch(ctx, dir); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	return os.WriteFile(ready, nil, 0o644)
}

// pip installs packages of PyPI in a virtual environment of their own.
func (b *bench) pip(ctx context.Context, name string, packages ...string) error {
	return b.install(ctx, name, func(ctx context.Context, dir string) error {
		if err := shell(ctx, dir, nil, "python3", "-m", "venv", "venv"); err != nil {
			return err
		}
		return shell(ctx, dir, nil, "venv/bin/pip",
			append([]string{"install", "-q", "--disable-pip-version-check"}, packages...)...)
	})
}

// npm installs packages of npm.
func (b *bench) npm(ctx context.Context, name string, packages ...string) error {
	return b.install(ctx, name, func(ctx context.Context, dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true,"type":"module"}`),
			0o644); err != nil {
			return err
		}
		return shell(ctx, dir, nil, "npm", append([]string{"install", "--ignore-scripts", "--no-audit", "--no-fund",
			"--loglevel=error", "--save-exact"}, packages...)...)
	})
}

// goInstall builds a program of a Go module.
func (b *bench) goInstall(ctx context.Context, name, program, version string) error {
	return b.install(ctx, name, func(ctx context.Context, dir string) error {
		env := []string{"CGO_ENABLED=0", "GOFLAGS=-trimpath -mod=mod", "GOWORK=off"}
		return errors.Join(shell(ctx, dir, env, "go", "mod", "init", "limits"),
			shell(ctx, dir, env, "go", "get", program+"@"+version),
			shell(ctx, dir, env, "go", "build", "-p", "1", "-ldflags", "-s -w", "-o", "program", program))
	})
}

// goPeersDir has the source of the clients of peers with a Go library, goPeersProgram is the program.
func goPeersDir(b *bench) string        { return filepath.Join(b.peers, "gopeers") }
func (b *bench) goPeersProgram() string { return filepath.Join(b.dir, "gopeers") }
func (b *bench) goPeers(ctx context.Context) error {
	if _, err := os.Stat(b.goPeersProgram()); err == nil {
		return nil
	}
	return shell(ctx, goPeersDir(b), []string{"CGO_ENABLED=0", "GOFLAGS=-trimpath"}, "go", "build", "-p", "1", "-o",
		b.goPeersProgram(), ".")
}

// maxSaid is how much of a failed command's output an error shows.
const maxSaid = 600

// shell runs a command at a low priority.
func shell(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", "5", name}, args...)...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, rig.Inherited(env...), rig.Attributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	said, err := cmd.CombinedOutput()
	if err != nil {
		text := strings.TrimSpace(string(said))
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, text[max(0, len(text)-maxSaid):])
	}
	return nil
}
