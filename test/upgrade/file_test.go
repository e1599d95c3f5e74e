package upgrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleasesFile compares RELEASES with the history, and other mentions of releases with RELEASES.
func TestReleasesFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../RELEASES")
	check(t, err)
	all, err := readReleases(string(text))
	check(t, err)
	changelog, err := os.ReadFile("../../CHANGELOG.md")
	check(t, err)
	chart, err := os.ReadFile("../../deploy/helm/rota/Chart.yaml")
	check(t, err)
	for _, r := range all {
		if _, err := os.Stat(filepath.Join("testdata", r.version, sumsFile)); err != nil {
			t.Errorf("%s has no files here: %v", r.version, err)
		}
		if heading := "\n## [" + r.version[1:] + "] - " + r.date + "\n"; !strings.Contains(string(changelog), heading) {
			t.Errorf("CHANGELOG.md has no heading%q", heading)
		}
	}
	if n := len(all); n > 0 {
		for _, line := range []string{"\nversion: " + all[n-1].version[1:] + "\n",
			"\nappVersion: " + all[n-1].version[1:] + "\n"} {
			if !strings.Contains(string(chart), line) {
				t.Errorf("Chart.yaml has no line %q", line)
			}
		}
	}
	for _, r := range all {
		if _, err := git("cat-file", "-e", r.commit+"^{commit}"); err != nil {
			t.Skipf("LEFT OUT: the history of this clone has no commit %s of %s", r.commit, r.version)
		}
		if _, err := git("merge-base", "--is-ancestor", r.commit, "HEAD"); err != nil {
			t.Errorf("%s, commit %s, is not an ancestor of this one", r.version, r.commit)
		}
	}
}
