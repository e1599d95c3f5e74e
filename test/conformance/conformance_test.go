package conformance

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// language is a client that has a driver.
type language struct {
	name string
	// line returns the driver's command line, or why there is none here.
	line func(t *testing.T, dir string) ([]string, error)
}

// given returns the command line of an existing driver, by an environment variable: `make conformance` sets them.
func given(variable string) func(*testing.T, string) ([]string, error) {
	return func(*testing.T, string) ([]string, error) {
		line := strings.Fields(os.Getenv(variable))
		if len(line) == 0 {
			return nil, fmt.Errorf("%s names no driver: make conformance sets it up", variable)
		}
		_, err := exec.LookPath(line[0])
		return line, err
	}
}

var languages = []language{
	{"go", func(_ *testing.T, dir string) ([]string, error) {
		path, err := rig.BuildPackage(dir, "github.com/rotasched/rota/test/conformance/driver")
		return []string{path}, err
	}},
	{"python", given("ROTA_CONFORMANCE_PYTHON")},
	{"typescript", given("ROTA_CONFORMANCE_TYPESCRIPT")},
}

// TestConformance runs every scenario in every language that is set up here, with and without the leader killed.
// ROTA_CONFORMANCE=N does so N times, ROTA_CONFORMANCE=killed once with the leader killed only; without it the leader
// lives. ROTA_CONFORMANCE_SLOW=3s waits before each step: no scenario depends on how fast the harness is.
func TestConformance(t *testing.T) {
	all, err := scenarios()
	if err != nil {
		t.Fatal(err)
	}
	rounds, deaths := 1, []bool{false}
	switch text := os.Getenv("ROTA_CONFORMANCE"); text {
	case "":
	case "killed":
		deaths = []bool{true}
	default:
		if _, err := fmt.Sscan(text, &rounds); err != nil {
			t.Fatalf("ROTA_CONFORMANCE: %v", err)
		}
		deaths = append(deaths, true)
	}
	slow, err := time.ParseDuration(cmp.Or(os.Getenv("ROTA_CONFORMANCE_SLOW"), "0s"))
	if err != nil {
		t.Fatalf("ROTA_CONFORMANCE_SLOW: %v", err)
	}
	dir := t.TempDir()
	binary, err := rig.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel() // most of the time is waiting
			line, err := l.line(t, dir)
			if err != nil {
				t.Skipf("left out: %v", err)
			}
			for round := range rounds {
				liveAll(t, all, deaths, binary, line, fmt.Sprint(l.name[:1], round), slow)
			}
		})
	}
}

// liveAll runs all scenarios on one cluster, once for each of deaths: whether the leader dies.
func liveAll(t *testing.T, all []scenario, deaths []bool, binary string, line []string, mark string,
	slow time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := startCluster(ctx, t.TempDir(), binary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}()
	start := func() (*driver, error) {
		d, err := startDriver(filepath.Dir(binary), line)
		if err != nil {
			return nil, err
		}
		kind, err := d.ask("connect", map[string]any{"addrs": strings.Join(c.nodes.APIs(), ",")}, nil)
		if err == nil && kind != "" {
			err = fmt.Errorf("connecting was refused as %s", kind)
		}
		return d, err
	}
	for i, s := range all {
		for _, deadly := range deaths {
			name := s.Name
			if deadly {
				name += "/leader killed"
			}
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), lifeTime)
				defer cancel()
				r := &run{cluster: c, start: start, deadly: deadly, prefix: fmt.Sprintf("%s-%d-%t-", mark, i, deadly),
					slow: slow}
				if err := r.live(ctx, &s); err != nil {
					t.Fatalf("%s\n%v", s.About, err)
				}
			})
		}
	}
}

// TestOrderly checks that the judge finds the faults that it must.
func TestOrderly(t *testing.T) {
	on := func(what, token string) answer { return answer{On: what, Job: "j", Token: token} }
	for name, c := range map[string]struct {
		reports []answer
		wrong   string
	}{
		"one after the other": {[]answer{on("started", "1.1"), on("ended", "1.1"), on("started", "1.2"),
			on("ended", "1.2")}, ""},
		"after it was lost": {[]answer{on("started", "1.1"), on("lost", "1.1"), on("started", "1.2"),
			on("ended", "1.1")},
			""}, "two at once": {[]answer{on("started", "1.1"), on("started", "1.2")}, "while one ran"},
		"an older token": {[]answer{on("started", "1.2"), on("ended", "1.2"), on("started", "1.1")}, "came after"},
		"the same token twice": {[]answer{on("started", "1.2"), on("ended", "1.2"), on("started", "1.2")},
			"came after"}, "no token": {[]answer{on("started", "")}, "a token is"},
		"a word of the drivers": {[]answer{on("began", "1.1")}, "reported"},
	} {
		t.Run(name, func(t *testing.T) {
			err := orderly(c.reports)
			if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("the judge returns %v, want %q", err, c.wrong)
			}
		})
	}
}
