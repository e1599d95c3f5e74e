package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/serve"
)

// TestStartPages checks that refusals to start and runbook pages belong together in pairs, and that each of several
// refusals names its own page.
func TestStartPages(t *testing.T) {
	t.Parallel()
	pages := []string{serve.StartSettings}
	for _, p := range serve.StartPages {
		pages = append(pages, p.Page)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "runbooks", "Start*.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "docs", "runbooks", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".md")
		if !slices.Contains(pages, name) {
			t.Errorf("no refusal names %s", f)
		}
		if !strings.Contains(string(readme), "["+name+"]("+name+".md)") {
			t.Errorf("docs/runbooks/README.md lacks %s", name)
		}
	}
	if len(files) != len(pages) {
		t.Errorf("%d pages for %d kinds of refusals", len(files), len(pages))
	}
	err = serve.Paged(cli.StartFaults{cli.Usagef("a flag"), rota.Refusef(rota.KindConflict, "data",
		"x is damaged: y")}.Err())
	const one, other = "a flag (runbook: " + cli.Runbooks + "StartSettings.md)", "x is damaged: y (runbook: " +
		cli.Runbooks + "StartDamagedData.md)"
	if err.Error() != one+"; "+other || cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("exit %d, %v", cli.ExitCode(err), err)
	}
	if err := cli.Failf("something else"); serve.Paged(err).Error() != err.Error() || serve.Paged(nil) != nil {
		t.Error("an error without a page names one")
	}
}
