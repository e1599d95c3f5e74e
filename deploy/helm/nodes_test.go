package helm

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// TestNodes starts three nodes with the exact settings that the chart renders, with certificates and a gossip key made
// as in docs/operations/kubernetes.md: pods' names are addresses of loopback here, and volumes are directories. It
// requires that all three are ready by the probe of the StatefulSet.
func TestNodes(t *testing.T) {
	dir := t.TempDir()
	rota := filepath.Join(dir, "rota")
	run(t, "../..", "go", "build", "-trimpath", "-o", rota, "./cmd/rota")
	files, err := render("")
	if err != nil {
		t.Fatal(err)
	}
	var settings struct {
		Data map[string]string `json:"data"`
	}
	if err := yaml.Unmarshal([]byte(files["rota/templates/configmap.yaml"]), &settings); err != nil ||
		len(settings.Data) != 3 {
		t.Fatalf("%v: settings of %d nodes", err, len(settings.Data))
	}
	made := filepath.Join(dir, "made")
	if err := os.Mkdir(made, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, dir, rota, "tls", "ca", "--dir", made)
	for i := range 3 {
		run(t, dir, rota, "tls", "issue", "node", fmt.Sprintf("rota-%d", i), "--dir", made, "--host", address(i))
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	if err := os.WriteFile(filepath.Join(made, "gossip.key"), []byte(base64.StdEncoding.EncodeToString(key)),
		0o600); err != nil {
		t.Fatal(err)
	}
	tls, gossip := mount(t, made, "*.pem", "rota-*.key"), mount(t, made, "gossip.key")
	for i := range 3 {
		pod := fmt.Sprintf("rota-%d", i)
		text := settings.Data[pod+".yaml"]
		for other := range 3 {
			text = strings.ReplaceAll(text, fmt.Sprintf("rota-%d.rota.rota.svc.cluster.local:", other),
				address(other)+":1")
		}
		text = strings.ReplaceAll(text, " /tls/", " "+tls+"/")
		text = strings.ReplaceAll(text, " /gossip/", " "+gossip+"/")
		text = strings.ReplaceAll(text, " /data/", " "+filepath.Join(dir, pod)+"/")
		file := filepath.Join(dir, pod+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, pod), 0o700); err != nil {
			t.Fatal(err)
		}
		run(t, dir, rota, "server", "--check", "--config", file)
		start(t, rota, file)
	}
	for i := range 3 {
		ready(t, "http://"+address(i)+":16472/readyz")
	}
	// The API answers to the service's name, though no node listens on it.
	response := get(t, "http://"+address(0)+":16472/readyz", "rota-api.rota.svc")
	if response != http.StatusOK {
		t.Errorf("status %d by the service's name", response)
	}
}

// address is the address of a pod here.
func address(pod int) string { return fmt.Sprintf("127.77.0.%d", pod+1) }

// mount shows files as a kubelet does those of a secret: links to files that the group may read.
func mount(t *testing.T, from string, patterns ...string) string {
	t.Helper()
	volume := t.TempDir()
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			if err := os.Chmod(file, 0o440); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(file, filepath.Join(volume, filepath.Base(file))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return volume
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// start runs a node until the test ends, and shows its log if the test fails.
func start(t *testing.T, rota, file string) {
	t.Helper()
	var log strings.Builder
	cmd := exec.Command(rota, "server", "--config", file)
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("%s: %v\n%s", filepath.Base(file), err, lastLines.FindString(log.String()))
		}
	})
}

var lastLines = regexp.MustCompile(`(?:.*\n){0,15}\z`)

// ready waits until a node's probe returns 200.
func ready(t *testing.T, url string) {
	t.Helper()
	code := 0
	for began := time.Now(); time.Since(began) < 60*time.Second; time.Sleep(100 * time.Millisecond) {
		if code = get(t, url, ""); code == http.StatusOK {
			return
		}
	}
	t.Fatalf("%s: status %d after a minute", url, code)
}

// get sends a request with a Host header, that of the URL if empty; it returns 0 without an answer.
func get(t *testing.T, url, host string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}
