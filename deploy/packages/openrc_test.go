package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// apkFile is a file of an apk.
type apkFile struct {
	mode int64
	text string
}

// apkFiles reads an apk: three concatenated archives, which read as one.
func apkFiles(t *testing.T, path string) map[string]apkFile {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]apkFile)
	for from := tar.NewReader(z); ; {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(io.LimitReader(from, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = apkFile{h.Mode, string(text)}
	}
}

// TestApk checks that the apk has OpenRC's script, and scripts that a shell can read; nothing in it is for systemd.
func TestApk(t *testing.T) {
	files := apkFiles(t, filepath.Join(packages(t), "rota_0.1.0_x86_64.apk"))
	init := files["etc/init.d/rota"]
	if init.mode&0o777 != 0o755 || !strings.HasPrefix(init.text, "#!/sbin/openrc-run\n") {
		t.Errorf("etc/init.d/rota has mode %o:\n%s", init.mode, init.text)
	}
	for _, name := range []string{"usr/bin/rota", "etc/rota/server.yaml"} {
		if _, there := files[name]; !there {
			t.Errorf("%s is not in it", name)
		}
	}
	for _, name := range []string{".pre-install", ".post-install", ".pre-upgrade", ".post-upgrade", ".pre-deinstall"} {
		if files[name].text == "" {
			t.Errorf("it has no script %s", name)
			continue
		}
		check := exec.Command("sh", "-n")
		check.Stdin = strings.NewReader(files[name].text)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	for name, f := range files {
		if strings.Contains(name, "systemd") || strings.HasPrefix(name, ".p") && strings.Contains(f.text, "systemctl") {
			t.Errorf("%s is for systemd", name)
		}
	}
}

// openrc replaces openrc-run: it records what the script requests.
const openrc = `
for f in checkpath su need use after; do eval "$f() { echo $f \"\$@\"; }"; done
. ./rota.initd
depend
start_pre
check
echo "runs $command $command_args as $command_user under $supervisor, stops with $retry, limits $rc_ulimit"
`

// TestInitScript checks that OpenRC starts the command line of the unit, under an account of its own, with its data
// directory created before, and checks as that account. This machine's sh reads the script, not OpenRC itself.
func TestInitScript(t *testing.T) {
	unit, _, err := units(filepath.Join("..", "..", "docs", "operations", "rota.service"))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(unit, "ExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	cmd := exec.Command("sh", "-euc", openrc)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	want := "need net\nuse dns logger\nafter firewall ntp-client\ncheckpath --directory --owner rota:rota --mode 0700 /var/lib/rota\n" +
		"su -s /bin/sh -c " + line + "  --check rota\nruns " + line +
		"  as rota:rota under supervise-daemon, stops with TERM/60/KILL/5, limits -n 65536 -c 0\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s\nand wanted is\n%s", err, out, want)
	}
}
