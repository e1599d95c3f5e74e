package upgrade

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// release is a line of RELEASES.
type release struct{ version, commit, date string }

// readReleases parses RELEASES, and rejects an invalid line.
func readReleases(text string) (all []release, err error) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Fields(line)
		var major, minor, patch int
		if len(parts) != 3 || line != strings.Join(parts, " ") || len(parts[1]) != 40 ||
			strings.Trim(parts[1], "0123456789abcdef") != "" {
			return nil, fmt.Errorf("got %q, want a version, a commit in 40 digits, and a date", line)
		}
		if n, err := fmt.Sscanf(parts[0], "v%d.%d.%d", &major, &minor, &patch); n != 3 ||
			fmt.Sprintf("v%d.%d.%d", major, minor, patch) != parts[0] {
			return nil, fmt.Errorf("invalid version %q: use one such as v0.1.0: %w", parts[0], err)
		}
		if _, err := time.Parse(time.DateOnly, parts[2]); err != nil {
			return nil, err
		}
		all = append(all, release{parts[0], parts[1], parts[2]})
	}
	return all, nil
}

// git runs git on the history of this tree.
func git(args ...string) ([]byte, error) {
	return exec.Command("git", append([]string{"-C", "../.."}, args...)...).Output()
}

// previous builds the newest release from the history. It skips the test if there is no release, or the history lacks
// its commit.
func previous(t testing.TB) (version, binary string) {
	t.Helper()
	text, err := os.ReadFile("../../RELEASES")
	check(t, err)
	all, err := readReleases(string(text))
	check(t, err)
	if commit := os.Getenv("ROTA_UPGRADE_FROM"); commit != "" {
		all = []release{{version: "v0.1.0", commit: commit}}
	}
	if len(all) == 0 {
		t.Fatal("RELEASES names no release")
	}
	r := all[len(all)-1]
	if _, err := git("cat-file", "-e", r.commit+"^{commit}"); err != nil {
		t.Skipf("LEFT OUT: the history of this clone has no commit %s of %s", r.commit, r.version)
	}
	dir := t.TempDir()
	tree, err := git("archive", r.commit)
	check(t, err)
	unpacking := exec.Command("tar", "-x", "-C", dir)
	unpacking.Stdin = bytes.NewReader(tree)
	check(t, unpacking.Run())
	binary = filepath.Join(t.TempDir(), "rota-"+r.version)
	building := exec.Command("go", "build", "-trimpath", "-ldflags", "-X main.version="+r.version[1:], "-o", binary,
		"./cmd/rota")
	building.Dir, building.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false")
	if said, err := building.CombinedOutput(); err != nil {
		t.Fatalf("%s is not built: %v: %s", r.version, err, said)
	}
	return r.version, binary
}

func TestReadReleases(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("0a", 20)
	if all, err := readReleases("# head\n\nv0.1.0 " + commit + " 2030-05-01\nv0.10.2 " + commit +
		" 2030-06-01\n"); err != nil || len(all) != 2 || all[1].version != "v0.10.2" {
		t.Errorf("%v, %v", all, err)
	}
	for _, bad := range []string{"v0.1.0 " + commit, "0.1.0 " + commit + " 2030-05-01",
		"v0.1 " + commit + " 2030-05-01", "v0.1.0 abc 2030-05-01",
		"v0.1.0 " + commit + " 2030-13-01", "v0.1.0  " + commit + " 2030-05-01", "v00.1.0 " + commit + " 2030-05-01"} {
		if all, err := readReleases(bad); err == nil {
			t.Errorf("%q is read as %v", bad, all)
		}
	}
}
