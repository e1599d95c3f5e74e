package serve

import (
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cron"
	"github.com/rotasched/rota/internal/server"
)

// checkServer says all that would keep the node from starting, a line each, or that nothing would.
func (a ServerCommands) checkServer(f *ServerFlags) error {
	faults := a.Unsettled
	if _, err := f.log.logger(a.Stderr); err != nil {
		faults = append(faults, err)
	}
	if err := f.hide(); err != nil {
		faults = append(faults, err)
	}
	plan, live, wrong := f.plans(a.TLS)
	faults = append(faults, wrong...)
	checked, more := server.Check(plan)
	for _, err := range more {
		faults = append(faults, cli.AsFailure(err))
	}
	if err := faults.Err(); err != nil {
		for _, fault := range faults {
			fmt.Fprintln(a.Stderr, cli.ErrorLine(Paged(fault), nil))
		}
		return &cli.SilentExit{Code: cli.ExitCode(err)}
	}
	value := serverChecked{Node: f.Node, Cluster: f.Cluster, Data: f.Data, Holder: checked.Holder, Last: checked.Last,
		Snapshot: checked.Snapshot}
	if live != nil {
		value.CertificateEnds = live.Leaf().NotAfter.UnixMilli()
	}
	zones := cron.Embedded()
	value.TZData, value.TZReleased = zones.Name(), int64(zones.Released())
	age, stale := zones.Stale(rota.DateOf(time.Now()))
	if stale {
		fmt.Fprintf(a.Stderr, "rota: warning: the time zone data in this binary, release %s, is %d days old: run a newer rota, or install newer data "+
			"on the cluster (rota tzdata install)\n", zones.Name(), int(age.Hours())/24)
	}
	return a.PrintOne(value, []string{f.Node}, func(bool) string {
		return fmt.Sprintf("node %s of cluster %s can start: %s\ntime zone data: release %s of %s\n", f.Node, f.Cluster,
			dataWords(f.Data, checked), zones.Name(), zones.Released())
	})
}

// serverChecked is what --check says of a node that can start.
type serverChecked struct {
	Node    string `json:"node"`
	Cluster string `json:"cluster"`
	Data    string `json:"data"`
	// Holder names the process that has the data directory open, if one has.
	Holder string `json:"holder,omitempty"`
	// Last and Snapshot are the last entries of the log and of the newest snapshot.
	Last            uint64 `json:"last_index"`
	Snapshot        uint64 `json:"snapshot_index"`
	CertificateEnds int64  `json:"certificate_ends_ms,omitempty"`
	// TZData is the release of the time zone database in the binary, TZReleased its date.
	TZData     string `json:"tzdata"`
	TZReleased int64  `json:"tzdata_released_ms"`
}

// dataWords says what a data directory holds.
func dataWords(path string, c server.Checked) string {
	switch {
	case c.Holder != "":
		return fmt.Sprintf("it runs now (%s), so its log, its snapshots and the addresses were not looked at", c.Holder)
	case c.Absent:
		return path + " will be made"
	case c.Last == 0 && c.Snapshot == 0:
		return path + " holds no state yet"
	}
	return fmt.Sprintf("%s is whole up to entry %d, with a snapshot at %d", path, max(c.Last, c.Snapshot), c.Snapshot)
}
