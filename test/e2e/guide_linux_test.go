package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota/test/rig"
)

// guideScript runs the three blocks of docs/guides/security.md, each on the machine that it names; the machines are
// addresses beyond loopback of one network namespace. Then it checks the results.
const guideScript = `set -eu
ip link set lo up
for n in 1 2 3; do ip addr add 10.0.0.$n/32 dev lo; done
rota() { # three machines share one loopback here
	if [ "$1" = server ]; then command rota "$@" --admin 127.0.0.$N:6472; else command rota "$@"; fi
}
refused() { # with exit code 8
	code=0; "$@" >/dev/null 2>refusal || code=$?
	if [ $code != 8 ]; then echo "exit code $code: $*"; cat refusal; exit 1; fi
}
. "$BLOCKS/0"
for N in 1 2 3; do
	mkdir m$N; cp -r secrets m$N; rm m$N/secrets/ca.key
	(cd m$N; . "$BLOCKS/1") >log$N 2>&1 &
done
until [ -S m1/data/rota.sock ]; do sleep 0.1; done
cd m1
refused rota job list --addr 10.0.0.1:6470 --tls-ca secrets/ca.pem
. "$BLOCKS/2"
rota job submit --token-file secrets/root.token --type x --id first --payload done --wait
refused rota job list
refused rota job list --token-file secrets/worker.token
refused rota job submit --token-file secrets/reader.token --type x
refused rota worker run --token-file secrets/worker.token --id other-1 --queues default --exec cat
test "$(rota job list --token-file secrets/reader.token -o name)" = first
rota operator verify --token-file secrets/root.token
`

// TestGuide_security runs the guide's own commands, from nothing to three locked nodes.
func TestGuide_security(t *testing.T) {
	t.Parallel()
	unshare, err := exec.LookPath("unshare")
	if err != nil || os.Getuid() != 0 || exec.Command(unshare, "-n", "ip", "link").Run() != nil {
		t.Skip("cannot make a network namespace here")
	}
	text, err := os.ReadFile("../../docs/guides/security.md")
	check(t, err)
	parts := strings.Split(string(text), "```")
	dir, blocks := t.TempDir(), t.TempDir()
	commands := 0
	for i := 1; i < len(parts); i += 2 {
		block := strings.TrimPrefix(parts[i], "sh\n")
		writeFile(t, filepath.Join(blocks, string(rune('0'+i/2))), block)
		for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", "")) {
			if !strings.HasPrefix(line, "umask") {
				commands++
			}
		}
	}
	if len(parts) != 7 || commands != 10 {
		t.Fatalf("the guide has %d blocks with %d commands, want 3 with 10", len(parts)/2, commands)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, unshare, "-n", "-p", "-f", "--kill-child", "sh", "-c", guideScript)
	cmd.Dir, cmd.SysProcAttr = dir, rig.Attributes()
	cmd.Env = append(rig.Bare("BLOCKS="+blocks, "ROTA_DISK_LOW=0", "ROTA_DISK_CRITICAL=0"),
		"PATH="+filepath.Dir(rotaBinary)+":"+os.Getenv("PATH"))
	var said rig.Output
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		logs := ""
		for _, n := range []string{"1", "2", "3"} {
			log, _ := os.ReadFile(filepath.Join(dir, "log"+n))
			logs += clip(string(log))
		}
		t.Fatalf("%v: %s\n%s", err, said.String(), logs)
	}
}
