package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// made builds the packages of one version, once for all tests.
var made = sync.OnceValues(func() (string, error) { return makeRelease("0.1.0") })

func makeRelease(version string) (string, error) {
	dir, err := os.MkdirTemp("", "rota-packages-test-")
	if err != nil {
		return "", err
	}
	dirs = append(dirs, dir)
	r := release{source: filepath.Join("..", ".."), out: filepath.Join(dir, "out"), version: version,
		date: time.Unix(1_790_000_000, 0).UTC()}
	return r.out, r.build()
}

var dirs []string

func TestMain(m *testing.M) {
	code := m.Run()
	for _, d := range dirs {
		_ = os.RemoveAll(d)
	}
	os.Exit(code)
}

func packages(t *testing.T) string {
	t.Helper()
	dir, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPackages checks that no package is missing, and that two builds of a commit are equal byte for byte.
func TestPackages(t *testing.T) {
	first := packages(t)
	second, err := makeRelease("0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(first, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(filepath.Join(second, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sums, again) {
		t.Errorf("two builds of one commit differ:\n%s\n%s", sums, again)
	}
	for _, arch := range architectures {
		rpm := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
		for _, want := range []string{"rota_0.1.0_" + arch + ".deb", "rota-0.1.0-1." + rpm + ".rpm",
			"rota_0.1.0_" + rpm + ".apk", "rota-0.1.0-linux-" + arch + ".tar.gz",
			"rota-0.1.0-linux-" + arch + ".cdx.json"} {
			if !strings.Contains(string(sums), "  "+want+"\n") {
				t.Errorf("SHA256SUMS has no %s:\n%s", want, sums)
			}
		}
	}
}

// TestBill checks that the bill of materials names the modules that go.mod requires, in the versions that are built in.
func TestBill(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(packages(t), "rota-0.1.0-linux-amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"github.com/hashicorp/raft", "go.etcd.io/bbolt", "google.golang.org/grpc"} {
		if !slices.ContainsFunc(bill.Components, func(c struct{ Name, Version string }) bool {
			return c.Name == want && strings.Contains(string(mod), want+" "+c.Version)
		}) {
			t.Errorf("%s is not in the bill in the version of go.mod", want)
		}
	}
}

// TestVersions checks that a version that packages cannot carry is refused before the build.
func TestVersions(t *testing.T) {
	for version, good := range map[string]bool{"0.1.0": true, "1.20.3-dev.4": true, "v0.1.0": false, "1.0": false,
		"": false, "1.0.0-": false, "1.0.0/../x": false} {
		r := release{out: "x", version: version}
		if err := r.check(1); (err == nil) != good {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

// TestUnits checks that a unit with lines unknown to the recipe is an error, rather than a package without keys or
// program.
func TestUnits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "u.service")
	for _, text := range []string{"[Service]\nExecStart=/opt/rota server --config c --tls-key k\n",
		"[Service]\nExecStart=/usr/local/bin/rota server --config c\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if unit, _, err := units(path); err == nil {
			t.Errorf("%q is accepted, and gives %q", text, unit)
		}
	}
	unit, keys, err := units(filepath.Join("..", "..", "docs", "operations", "rota.service"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(unit,
		"ExecStart=/usr/bin/rota server --config /etc/rota/server.yaml --data /var/lib/rota\n") ||
		strings.Contains(unit, "LoadCredential=node") {
		t.Errorf("the unit wants keys:\n%s", unit)
	}
	if !strings.Contains(keys, "\nExecStart=\nExecStart=/usr/bin/rota server ") ||
		!strings.Contains(keys, "\nLoadCredential=node.key:") {
		t.Errorf("the drop-in has no keys:\n%s", keys)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("left out: without systemd-analyze the installed unit cannot be checked")
	}
	installed := filepath.Join(t.TempDir(), "rota.service")
	if err := os.WriteFile(installed, []byte(strings.Replace(unit, "/usr/bin/rota", "/bin/true", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	// It exits with 0 on an unknown setting, and prints a message.
	if out, err := exec.Command(analyze, "verify", installed).CombinedOutput(); err != nil ||
		strings.Contains(string(out), "rota.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestDeb installs the deb into a root of its own, runs the command line of its unit, upgrades it and purges it.
func TestDeb(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("LEFT OUT: no dpkg here, so no deb was installed")
	}
	arch, err := exec.Command("dpkg", "--print-architecture").Output()
	if err != nil {
		t.Fatal(err)
	}
	name := func(version string) string { return "rota_" + version + "_" + strings.TrimSpace(string(arch)) + ".deb" }
	next, err := makeRelease("0.1.1")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	const hint = "set /etc/rota/server.yaml"
	if out := dpkg(t, root, "--install", filepath.Join(packages(t), name("0.1.0"))); !strings.Contains(out, hint) {
		t.Errorf("an installation does not print the next steps: %s", out)
	}
	if out := start(t, root); !strings.Contains(out, "0.1.0") {
		t.Errorf("rota prints %q", out)
	}
	config := filepath.Join(root, "etc", "rota", "server.yaml")
	if err := os.WriteFile(config, []byte("node: n1\nbootstrap-expect: 1\nlog-level: warn # mine\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out := dpkg(t, root, "--force-confold", "--install", filepath.Join(next, name("0.1.1"))); strings.Contains(out,
		hint) {
		t.Errorf("an upgrade prints the steps after an installation: %s", out)
	}
	if text, err := os.ReadFile(config); err != nil || !strings.HasSuffix(string(text), "# mine\n") {
		t.Errorf("an upgrade left %q of the operator's settings, %v", text, err)
	}
	if out := start(t, root); !strings.Contains(out, "0.1.1") {
		t.Errorf("after an upgrade rota prints %q", out)
	}
	dpkg(t, root, "--remove", "rota")
	if _, err := os.Stat(config); err != nil {
		t.Errorf("removal took the settings: %v", err)
	}
	dpkg(t, root, "--purge", "rota")
	for _, gone := range []string{"etc/rota/server.yaml", "usr/bin/rota", "usr/lib/systemd/system/rota.service"} {
		if _, err := os.Stat(filepath.Join(root, gone)); err == nil {
			t.Errorf("/%s is still there after purging", gone)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "data")); err != nil {
		t.Errorf("purging took the node's data: %v", err)
	}
}

// dpkg runs on a root of its own, and returns its output. Scripts run outside of it with DPKG_ROOT, and do not touch
// this machine's systemd.
func dpkg(t *testing.T, root string, args ...string) string {
	t.Helper()
	admin := filepath.Join(root, "var", "lib", "dpkg")
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(admin, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"status", "available"} {
		if _, err := os.Stat(filepath.Join(admin, f)); err != nil {
			if err := os.WriteFile(filepath.Join(admin, f), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	line := append([]string{"--instdir=" + root, "--admindir=" + admin, "--force-script-chrootless", "--force-not-root",
		"--force-bad-path", "--log=/dev/null"}, args...)
	out, err := exec.Command("dpkg", line...).CombinedOutput()
	if err != nil {
		t.Fatalf("dpkg %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// start runs the command line of the installed unit, with its paths in the root and ports of its own, until the node is
// ready, and ends it as systemd does. It returns the version that the binary prints.
func start(t *testing.T, root string) string {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/rota.service"))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(unit), "\nExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	line = strings.NewReplacer("/usr/bin/", root+"/usr/bin/", "/etc/rota/", root+"/etc/rota/", "/var/lib/rota",
		root+"/data").Replace(line)
	var ports []string
	for range 4 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().String())
		_ = l.Close()
	}
	args := append(strings.Fields(line), "--api", ports[0], "--raft", ports[1], "--admin", ports[2], "--gossip",
		ports[3])
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for ready := false; !ready; time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil {
			_ = cmd.Wait()
			t.Fatalf("the node was not ready: %s", said.String())
		}
		if r, err := http.Get(fmt.Sprintf("http://%s/readyz", ports[2])); err == nil {
			ready = r.StatusCode == http.StatusOK
			_ = r.Body.Close()
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the node did not end well: %v\n%s", err, said.String())
	}
	out, err := exec.Command(args[0], "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
