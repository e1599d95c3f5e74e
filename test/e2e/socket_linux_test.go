package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rotasched/rota/test/rig"
)

// TestSocket_ofAnother: another account that reaches a node's socket, as its permissions were changed, is refused
// because of its user id.
func TestSocket_ofAnother(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can call as another account")
	}
	c := newCluster(t, 1)
	n := c.all[0]
	check(t, os.Chmod(n.socket(), 0o666))
	for dir := n.Dir; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		check(t, os.Chmod(dir, 0o711))
	}
	check(t, os.Chmod(filepath.Dir(rotaBinary), 0o711))
	for uid, code := range map[uint32]int{65534: 8, 0: 0} {
		cmd := exec.Command(rotaBinary, "auth", "init", "--data", n.Dir)
		cmd.Env, cmd.Dir = rig.Bare(), "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != code {
			t.Errorf("uid %d: exit code %d: %s", uid, cmd.ProcessState.ExitCode(), out)
		}
		if uid != 0 {
			contains(t, "the refusal", string(out), "uid 65534 called on the node's socket")
		}
	}
}
