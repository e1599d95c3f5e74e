package crash

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// role is a node's role when it dies.
type role string

const (
	leads   role = "leader"
	follows role = "follower"
	// candidate is a follower that the leader has asked to take its place.
	candidate role = "candidate"
)

// point is a place in the code, and the way to reach it.
type point struct {
	name string
	// roles that pass it.
	roles []role
	// passing is the number of the passing that kills: at later ones more is in progress.
	passing int
	// reach makes the node pass the point; nil if the load alone does.
	reach func(*cluster, *node, role)
}

var both = []role{leads, follows}

// points are those that the load, or one call, passes.
var points = []point{
	{name: "log-before-store", roles: both, passing: 3},
	{name: "log-mid-write", roles: both, passing: 3},
	{name: "log-before-sync", roles: both, passing: 3},
	{name: "log-after-store", roles: both, passing: 3},
	{name: "log-before-mark", roles: both, passing: 2},
	{name: "log-after-mark", roles: both, passing: 2},
	{name: "vote-before-store", roles: []role{candidate, follows}, passing: 1, reach: transfer},
	{name: "vote-after-store", roles: []role{candidate, follows}, passing: 1, reach: transfer},
	{name: "commit-before-answer", roles: []role{leads}, passing: 3},
	{name: "forward-before-answer", roles: []role{follows}, passing: 3},
	{name: "forwarded-before-answer", roles: []role{leads}, passing: 3},
	{name: "apply-before-digest", roles: both, passing: 3},
	{name: "lease-before-delivery", roles: both, passing: 2},
	{name: "snapshot-before-meta", roles: both, passing: 1},
	{name: "snapshot-before-rename", roles: both, passing: 1},
	{name: "archive-before-flush", roles: both, passing: 1},
	{name: "archive-after-flush", roles: both, passing: 1},
	{name: "events-mid-commit", roles: both, passing: 1},
	{name: "workflow-before-commit", roles: both, passing: 1, reach: submitWorkflow},
}

// starting are passed by a starting node, which is always a follower.
var starting = []point{
	{name: "restore-midway", roles: []role{follows}, passing: 1},
	{name: "restore-before-swap", roles: []role{follows}, passing: 1},
}

// rebuilding are the steps of one rebuild, in order: the node dies at each in turn, and starts again.
var rebuilding = []point{
	{name: "rebuild-before-fetch", roles: []role{follows}, passing: 1},
	{name: "rebuild-before-adopt", roles: []role{follows}, passing: 1},
	{name: "rebuild-before-scour", roles: []role{follows}, passing: 1},
	{name: "rebuild-before-aside", roles: []role{follows}, passing: 1},
	{name: "rebuild-before-end", roles: []role{follows}, passing: 1},
}

// leaving change the membership.
var (
	removal = point{name: "removal-before-configuration", roles: []role{leads}, passing: 1}
	leave   = point{name: "leave-before-end", roles: []role{follows}, passing: 1}
)

func allPoints() []point {
	return slices.Concat(points, starting, rebuilding, []point{removal, leave})
}

var pointInSource = regexp.MustCompile(`\bfailpoint\.(?:Pass|Due)\("([a-z-]+)"\)`)

// TestPointsAreKnown requires a row for each point of the sources, and no other: a point that no test passes proves
// nothing.
func TestPointsAreKnown(t *testing.T) {
	t.Parallel()
	inSource := make(map[string]int)
	check(t, filepath.WalkDir("../../cluster", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range pointInSource.FindAllSubmatch(text, -1) {
			inSource[string(found[1])]++
		}
		return err
	}))
	for _, p := range allPoints() {
		if inSource[p.name] != 1 {
			t.Errorf("the point %s: got %d places in the sources, want 1", p.name, inSource[p.name])
		}
		delete(inSource, p.name)
	}
	for name := range inSource {
		t.Errorf("no row of points_test.go has a node die at %s", name)
	}
}

// TestNormalBuildHasNoPoint builds the binary as users get it.
func TestNormalBuildHasNoPoint(t *testing.T) {
	t.Parallel()
	plain, err := os.ReadFile(buildRota(t, t.TempDir()))
	check(t, err)
	with, err := os.ReadFile(rotaBinary(t))
	check(t, err)
	words := []string{"ROTA_FAILPOINT", "failpoint:"}
	for _, p := range allPoints() {
		words = append(words, p.name)
	}
	for _, word := range words {
		if bytes.Contains(plain, []byte(word)) {
			t.Errorf("a normal build holds %q", word)
		}
		if !bytes.Contains(with, []byte(word)) {
			t.Errorf("a build with the tag lacks %q: this test sees nothing", word)
		}
	}
}
