package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// The ports that docker-compose.yml publishes.
const composeAddrs = "127.0.0.1:6470,127.0.0.1:6480,127.0.0.1:6490"

// The image and the compose file make a cluster that outlives its leader's
// container.
func TestDockerCompose(t *testing.T) {
	long(t)
	compose := composeCommand(t)
	root, err := filepath.Abs("../..")
	check(t, err)
	image(t)
	project := fmt.Sprintf("rota-e2e-%d", os.Getpid())
	run := func(most time.Duration, args ...string) (string, error) {
		return external(root, most, append(append(compose, "-p", project, "-f",
			filepath.Join(root, "docker-compose.yml")), args...)...)
	}
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := run(20*time.Second, "logs", "--tail", "60")
			t.Log(clip(said))
		}
		if said, err := run(90*time.Second, "down", "-v", "--remove-orphans", "--timeout", "5"); err != nil {
			t.Errorf("compose down: %v\n%s", err, said)
		}
	})
	if said, err := run(120*time.Second, "up", "-d"); err != nil {
		t.Fatalf("compose up: %v\n%s", err, said)
	}
	env := []string{"ROTA_ADDR=" + composeAddrs}
	var status rota.ClusterStatus
	eventually(t, 60*time.Second, "the containers are a cluster", func() error {
		r := command(t, env, "", "cluster", "status", "-o", "json", "--timeout", "8s")
		if r.code != 0 {
			return fmt.Errorf("exit code %d: %s", r.code, r.stderr)
		}
		return json.Unmarshal([]byte(r.stdout), &status)
	})
	submit := []string{"job", "submit", "--type", "hello", "--payload", "hi", "--wait", "--timeout", "60s"}
	command(t, env, "", submit...).want(t, 0)
	if said, err := run(40*time.Second, "stop", string(status.Leader)); err != nil {
		t.Fatalf("compose stop %s: %v\n%s", status.Leader, err, said)
	}
	command(t, env, "", submit...).want(t, 0)
	if said, err := run(40*time.Second, "start", string(status.Leader)); err != nil {
		t.Fatalf("compose start %s: %v\n%s", status.Leader, err, said)
	}
	eventually(t, 60*time.Second, "all three are equal again", func() error {
		// Nodes are known by names that only containers resolve: one of them is asked.
		said, err := run(20*time.Second, "exec", "-T", "n1", "/rota", "operator", "verify", "--addr",
			"n1:6470,n2:6470,n3:6470", "--timeout", "10s")
		if err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		return nil
	})
}

// composeCommand finds compose and an engine that answers, or skips the test.
func composeCommand(t *testing.T) []string {
	t.Helper()
	if _, err := external("", 20*time.Second, "docker", "info", "--format", "{{.ServerVersion}}"); err != nil {
		t.Skipf("no Docker engine answers: %v", err)
	}
	for _, candidate := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if _, err := external("", 20*time.Second, append(candidate, "version")...); err == nil {
			return candidate
		}
	}
	t.Skip("neither docker compose nor docker-compose is installed")
	return nil
}

// image builds rota:dev from the same binary that the other tests run, as `make image` does.
func image(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	whole, err := os.ReadFile(rotaBinary)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "rota"), whole, 0o755))
	recipe, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	check(t, err)
	check(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
	writeFile(t, filepath.Join(dir, "Dockerfile"), string(recipe))
	if said, err := external(dir, 120*time.Second, "docker", "build", "-t", "rota:dev", dir); err != nil {
		t.Fatalf("docker build: %v\n%s", err, said)
	}
}

// external runs a program that is not ours.
func external(dir string, most time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args[:min(3, len(args))], " "), err,
			clip(strings.TrimSpace(said.String())))
	}
	return said.String(), err
}
