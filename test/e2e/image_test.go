package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// healthCommand is the health check of the image, as it would run next to a node.
func healthCommand(t *testing.T, data string) []string {
	t.Helper()
	text, err := os.ReadFile("../../Dockerfile")
	check(t, err)
	_, rest, found := strings.Cut(string(text), "\nHEALTHCHECK ")
	_, list, called := strings.Cut(rest, "CMD ")
	list, _, _ = strings.Cut(list, "\n")
	var command []string
	if err := json.Unmarshal([]byte(list), &command); !found || !called || err != nil || len(command) < 2 ||
		command[0] != "/rota" {
		t.Fatalf("the Dockerfile has no health check in exec form: %q, %v", list, err)
	}
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], "/data/", data+"/")
	}
	return command[1:]
}

// TestImage_health: the image's health check reports that a node serves, with certificates and tokens too, and fails
// for one that has no leader or does not run.
func TestImage_health(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	flags := ca.flags(t, "n1")
	n := newNode(t, "n1", append(flags, "--bootstrap-expect", "1")...)
	n.start(t)
	n.awaitReady(t)
	command(t, nil, "", "auth", "init", "--data", n.Dir).want(t, 0)
	health := healthCommand(t, n.Dir)
	// As in a container, whose environment has the server's settings.
	env := []string{"ROTA_API=" + n.API}
	for i := 0; i+1 < len(flags); i += 2 {
		env = append(env, "ROTA_"+strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(flags[i], "--"), "-", "_"))+"="+
			flags[i+1])
	}
	eventually(t, 10*time.Second, "it is healthy", func() error {
		if r := command(t, env, "", health...); r.code != 0 {
			return fmt.Errorf("exit %d: %s", r.code, r.stderr)
		}
		return nil
	})
	n.stop(t, 15*time.Second)
	command(t, env, "", health...).want(t, 7)
	alone := newNode(t, "n2", "--bootstrap-expect", "3")
	alone.start(t)
	alone.says(t, 10*time.Second, "waiting for other nodes")
	if r := command(t, nil, "", healthCommand(t, alone.Dir)...); r.code == 0 {
		t.Errorf("a node without a cluster is healthy: %s", r.stdout)
	}
}
