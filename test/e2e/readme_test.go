package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/rig"
)

// section returns the code blocks of a language in a section of a page, unchanged.
func section(t testing.TB, page, title, language string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	check(t, err)
	_, rest, found := strings.Cut(string(text), "\n## "+title+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, title)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var blocks []string
	for {
		var block string
		if _, rest, found = strings.Cut(rest, "```"+language+"\n"); !found {
			return blocks
		}
		block, rest, _ = strings.Cut(rest, "```")
		blocks = append(blocks, block)
	}
}

// TestReadme_go builds and runs the README's program exactly as written, in the environment of the rota command: it
// connects to that cluster, its output is as described, its job is done, and a signal ends it properly.
func TestReadme_go(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	blocks := section(t, "../../README.md", "A worker in Go", "go")
	if len(blocks) != 1 {
		t.Fatalf("%d programs", len(blocks))
	}
	dir := t.TempDir()
	source := writeFile(t, filepath.Join(dir, "resize.go"), blocks[0])
	binary := filepath.Join(dir, "resize")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, source)
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	program := exec.Command(binary)
	program.Env = rig.Bare(c.env())
	var said rig.Output
	program.Stdout, program.Stderr, program.SysProcAttr = &said, &said, rig.Attributes()
	check(t, program.Start())
	t.Cleanup(func() { _ = program.Process.Kill() })
	job := c.awaitState(t, c.dial(t), "photo-4711", 30*time.Second, rota.JobCompleted, rota.JobDead)
	if job.State != rota.JobCompleted || !strings.Contains(string(job.Output), "640 pixels under") {
		t.Errorf("job %+v", job)
	}
	check(t, program.Process.Signal(syscall.SIGTERM))
	if err := program.Wait(); err != nil {
		t.Errorf("the program ended with %v: %s", err, said.String())
	}
	contains(t, "the program's output", said.String(), "submitted photo-4711\n", "running photo-4711\n")
}

// TestGuide_curl runs both workers of the guide on curl workers, and each completes its job.
func TestGuide_curl(t *testing.T) {
	t.Parallel()
	needs(t, "bash", "curl", "jq", "openssl")
	c := newCluster(t, 3)
	const guide = "../../docs/guides/curl-workers.md"
	blocks := append(section(t, guide, "A worker with curl", "sh"), section(t, guide, "The calls", "sh")...)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for i, id := range []string{"photo-4714", "photo-4715"} {
		shell := exec.Command("bash", "-euc", blocks[i])
		shell.Dir, shell.Env, shell.SysProcAttr = withBinary(t), rig.Bare(c.env()), rig.Attributes()
		if said, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		if job := c.job(t, id); job.State != rota.JobCompleted || !strings.HasPrefix(string(job.Output), "640 pixels") {
			t.Errorf("job %+v", job)
		}
	}
}

// withBinary makes a directory with the binary in bin.
func withBinary(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	check(t, os.Symlink(rotaBinary, filepath.Join(dir, "bin", "rota")))
	return dir
}

// needs skips a test if a tool that users install themselves is missing.
func needs(t testing.TB, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed, which the worker needs: %v", tool, err)
		}
	}
}

// TestGuide_workflow runs the first example of the guide on workflows, line by line.
func TestGuide_workflow(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	const guide = "../../docs/guides/workflows.md"
	files, lines := section(t, guide, "A first workflow", "yaml"), section(t, guide, "A first workflow", "sh")
	if len(files) != 1 || len(lines) != 1 || strings.Count(lines[0], " &\n") != 1 {
		t.Fatalf("%d files, commands %q", len(files), lines)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "nightly.yaml"), files[0])
	shell := exec.Command("sh", "-ec", "trap 'kill $!; wait' EXIT\n"+lines[0])
	shell.Dir, shell.SysProcAttr = dir, rig.Attributes()
	shell.Env = append(rig.Bare(c.env()), "PATH="+filepath.Dir(rotaBinary)+":"+os.Getenv("PATH"))
	said, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	contains(t, "what the commands say", string(said), "COMPLETED")
	report := c.job(t, "nightly-7/report")
	contains(t, "the last node's output", string(report.Output), "2026-01-31", "clean", "count", "mail")
}
