package fault

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// remover is a process that waits for the end of this one, in whatever way, and then removes everything that the run
// has with the engine. A deferred call would do so only if this program ends properly.
type remover struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  *strings.Builder
}

// maxRemove is how long it tries.
const maxRemove = 90 * time.Second

func startRemover(project string) (*remover, error) {
	r := &remover{cmd: exec.Command("/proc/self/exe", project), said: &strings.Builder{}}
	r.cmd.Env = append(os.Environ(), RoleKey+"="+roleRemover)
	// Not rig.Attributes: it must outlive this program.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.Stderr = r.said
	var err error
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return r, r.cmd.Start()
}

// finish makes it remove everything now.
func (r *remover) finish() error {
	_ = r.stdin.Close()
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(r.said.String()))
	}
	return nil
}

// removeAll is the main function of the remover.
func removeAll(project string) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	_, _ = io.Copy(io.Discard, os.Stdin)
	var last error
	for end, clean := time.Now().Add(maxRemove), 0; time.Now().Before(end); {
		var found int
		if found, last = removeOnce(project); found == 0 && last == nil {
			// Objects that the engine was still about to make come a little later.
			if clean++; clean == 3 {
				return nil
			}
		} else {
			clean = 0
		}
		time.Sleep(300 * time.Millisecond)
	}
	return fmt.Errorf("not all of %s is removed: %w", project, last)
}

// removeOnce removes the existing objects, in the order in which one holds the other.
func removeOnce(project string) (found int, all error) {
	for _, kind := range []struct {
		name   string
		list   []string
		remove []string
	}{
		{"container", []string{"ls", "--all", "--quiet"}, []string{"rm", "--force", "--volumes"}},
		{"network", []string{"ls", "--quiet"}, []string{"rm"}},
		{"volume", []string{"ls", "--quiet"}, []string{"rm", "--force"}},
		{"image", []string{"ls", "--quiet"}, []string{"rm", "--force"}},
	} {
		list := append([]string{kind.name}, kind.list...)
		text, err := docker(append(list, "--filter", "label="+projectLabel+"="+project)...)
		ids := strings.Fields(text)
		if err == nil && len(ids) > 0 {
			_, err = docker(append(append([]string{kind.name}, kind.remove...), ids...)...)
		}
		found, all = found+len(ids), errors.Join(all, err)
	}
	return found, all
}
