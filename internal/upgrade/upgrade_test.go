package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// day is the present time of these tests.
var day = time.Date(2030, 5, 1, 3, 0, 0, 0, time.UTC)

// well returns a healthy cluster of three.
func well() Facts {
	own := Formats{Rules: 2, Node: 1, Snapshot: 3, History: 2}
	f := Facts{Now: day, Own: Binary{"0.3.0", &own}, Answers: make(map[rota.NodeID]Answer)}
	f.Status = rota.ClusterStatus{ClusterID: "c1", Leader: "n1", Term: 4, Mode: rota.ModeNormal, RulesVersion: 2,
		StateBytes: 1 << 20,
		Autopilot:  rota.Autopilot{On: true, VotersWanted: 3},
		Backup:     &rota.StoredBackup{Name: "b", Date: rota.Date(day.Add(-time.Hour).UnixMilli())}}
	for i := range 3 {
		id := rota.NodeID(fmt.Sprintf("n%d", i+1))
		f.Status.Nodes = append(f.Status.Nodes, rota.NodeStatus{ID: id, State: "FOLLOWER", Voter: true,
			Version: "0.3.0", AppliedIndex: 100,
			Digest: rota.Digest{Lo: 1}, Healthy: true, RulesVersion: 2, DiskFree: 1 << 30, DiskTotal: 2 << 30})
		f.Peers = append(f.Peers, rota.RaftPeer{ID: id, Voter: true})
	}
	f.Status.Nodes[0].State = "LEADER"
	for _, n := range f.Status.Nodes {
		f.Answers[n.ID] = Answer{Status: copied(f.Status)}
	}
	return f
}

func copied(s rota.ClusterStatus) rota.ClusterStatus {
	s.Nodes = slices.Clone(s.Nodes)
	return s
}

// to returns a newer binary.
func to(version string, change func(*Formats)) *Binary {
	b := Binary{version, &Formats{Rules: 2, Node: 1, Snapshot: 3, History: 2}}
	if change != nil {
		change(b.Formats)
	}
	return &b
}

func TestJudge_well(t *testing.T) {
	t.Parallel()
	f := well()
	f.To = to("0.4.0", func(f *Formats) { f.Rules = 3 })
	r := f.Judge()
	for _, found := range r.Findings {
		if found.Result != OK {
			t.Errorf("%+v", found)
		}
	}
	if !r.Ready || len(r.Findings) != 15 {
		t.Errorf("ready %t with %d findings", r.Ready, len(r.Findings))
	}
	var order []rota.NodeID
	for _, n := range r.Nodes {
		order = append(order, n.ID)
	}
	if !slices.Equal(order, []rota.NodeID{"n2", "n3", "n1"}) {
		t.Errorf("they are upgraded in the order %v", order)
	}
}

// TestJudge plants one fault after another, and expects its finding, with the next step.
func TestJudge(t *testing.T) {
	t.Parallel()
	node := func(i int, change func(*rota.NodeStatus)) func(*Facts) {
		return func(f *Facts) { change(&f.Status.Nodes[i]) }
	}
	binary := func(version string, change func(*Formats)) func(*Facts) {
		return func(f *Facts) { f.To = to(version, change) }
	}
	versions := func(all ...string) func(*Facts) {
		return func(f *Facts) {
			for i, v := range all {
				f.Status.Nodes[i].Version = v
			}
		}
	}
	for name, one := range map[string]struct {
		plant  func(*Facts)
		check  string
		result Result
		node   rota.NodeID
		text   string
	}{
		"a node is down": {func(f *Facts) {
			f.Status.Nodes[1] = rota.NodeStatus{ID: "n2", State: unreachable, Voter: true}
			f.Answers["n2"] = Answer{Err: errors.New("refused")}
		}, "members", Blocked, "n2", "does not answer"},
		"a node answers here alone": {node(1, func(n *rota.NodeStatus) { n.State = unreachable }), "members", Blocked,
			"n2", "and not the node that was asked"},
		"a node answers others alone": {func(f *Facts) { f.Answers["n3"] = Answer{Err: errors.New("no route")} },
			"members", Blocked, "n3", "no route"},
		"a link is cut": {func(f *Facts) { f.Answers["n2"].Status.Nodes[2].State = unreachable },
			"members", Blocked, "n2", "does not reach n3"},
		"a node is ill": {node(2, func(n *rota.NodeStatus) {
			n.Healthy, n.Problems = false, []string{"a write hangs"}
		}), "health", Blocked, "n3", "a write hangs"},
		"a word about a node": {node(2, func(n *rota.NodeStatus) { n.Problems = []string{"exposed"} }),
			"health", Warning, "n3", "exposed"},
		"a node rebuilds": {node(2, func(n *rota.NodeStatus) { n.State = rebuilding }), "health", Blocked,
			"n3", "being rebuilt"},
		"one voter": {func(f *Facts) { f.Status.Nodes = f.Status.Nodes[:1]; f.Peers = f.Peers[:1] },
			"quorum", Blocked, "", "with one of 1 voter down no majority is left"},
		"two voters": {func(f *Facts) { f.Status.Nodes = f.Status.Nodes[:2]; f.Peers = f.Peers[:2] },
			"quorum", Blocked, "", "with one of 2 voters down no majority is left"},
		"one of three is down": {node(1, func(n *rota.NodeStatus) { n.State = unreachable }), "quorum", Blocked,
			"", "none can be spared"},
		"no leader": {func(f *Facts) { f.Status.Leader = "" }, "leader", Blocked, "", "no leader"},
		"two leaders": {func(f *Facts) {
			s := f.Answers["n3"].Status
			s.Leader = "n3"
			f.Answers["n3"] = Answer{Status: s}
		}, "leader", Blocked, "n3", "follows n3, the others n1"},
		"a node joins": {node(2, func(n *rota.NodeStatus) { n.Voter = false }), "configuration", Blocked, "n3",
			"on its way to a vote"},
		"a node has come": {func(f *Facts) { f.Peers = append(f.Peers, rota.RaftPeer{ID: "n4"}) }, "configuration",
			Blocked, "n4", "just now"},
		"the leader may remove one": {func(f *Facts) {
			f.Status.Nodes[1].State, f.Status.Autopilot.Text = unreachable, "n2 goes in 2 minutes"
		}, "configuration", Blocked, "", "the leader reports: n2 goes"},
		"a voter is missing": {func(f *Facts) {
			f.Status.Autopilot.VotersWanted, f.Status.Autopilot.Text = 5, "3 of 5 wanted voters are there"
		}, "configuration", Warning, "", "got 3 voters, want 5"},
		"a node lags": {func(f *Facts) { f.Status.Nodes[0].AppliedIndex = 20_000 }, "log",
			Blocked, "n2", "19900 entries behind"},
		"states differ": {node(2, func(n *rota.NodeStatus) { n.Digest = rota.Digest{Lo: 2} }),
			"digests", Blocked, "n3", "differs from that of n1 at index 100"},
		"a clock is off": {node(1, func(n *rota.NodeStatus) { n.WallSkew = -2 * time.Second }),
			"clocks", Blocked, "n2", "-2s off"},
		"a certificate has ended": {node(1,
			func(n *rota.NodeStatus) { n.CertificateEnds = rota.Date(day.Add(-time.Hour).UnixMilli()) }),
			"certificates", Blocked, "n2", "does not start again"},
		"a certificate ends tonight": {node(1,
			func(n *rota.NodeStatus) { n.CertificateEnds = rota.Date(day.Add(time.Hour).UnixMilli()) }), "certificates",
			Blocked, "n2", "ends 2030-05-01"},
		"a certificate ends soon": {node(1,
			func(n *rota.NodeStatus) { n.CertificateEnds = rota.Date(day.Add(48 * time.Hour).UnixMilli()) }),
			"certificates", Warning, "n2", "ends 2030-05-03"},
		"a disk is full": {node(1, func(n *rota.NodeStatus) { n.DiskFree = 10 << 20 }), "disk",
			Blocked, "n2", "10 MiB free, and two snapshots may take 66 MiB"},
		"a disk is not known": {node(1, func(n *rota.NodeStatus) { n.DiskTotal = 0 }), "disk",
			Warning, "n2", "does not know"},
		"no backup": {func(f *Facts) { f.Status.Backup = nil }, "backup", Warning, "", "knows of no backup"},
		"an old backup": {func(f *Facts) { f.Now = day.Add(30 * time.Hour) }, "backup", Warning,
			"", "is of 2030-05-01"},
		"a refusing mode": {func(f *Facts) { f.Status.Mode, f.Status.ModeReason = rota.ModeReadOnly, "new rack" },
			"mode", Warning, "", "READ_ONLY: new rack"},
		"versions are mixed": {versions("0.3.0", "0.3.0", "0.4.0"), "versions", Warning, "",
			"0.3.0 on n1, n2; 0.4.0 on n3"},
		"versions are far apart": {versions("0.10.0", "0.9.0", "0.7.1"), "versions", Blocked, "",
			"v0.7 and v0.10 run in one cluster"},
		"three minor versions on": {binary("0.6.0", nil), "versions", Blocked, "n1", "more than 2 minor versions"},
		"two minor versions on":   {binary("v0.5.2", nil), "versions", OK, "", "all run 0.3.0"},
		"a minor version back":    {binary("0.2.0", nil), "versions", Warning, "n1", "is a way back"},
		"three minor versions back": {binary("0.0.9", nil), "versions", Blocked, "n1",
			"more than 2 minor versions back"},
		"another major version": {binary("1.0.0", nil), "versions", Blocked, "n1", "another major version"},
		"no release":            {binary("dev", nil), "versions", Warning, "n1", "not both are releases"},
		"rules that are in force are not known": {binary("0.3.1", func(f *Formats) { f.Rules = 1 }), "rules", Blocked,
			"", "it does not start in this cluster"},
		"newer rules": {binary("0.3.1", func(f *Formats) { f.Rules = 3 }), "rules", OK, "", "there is a way back"},
		"an upgrade has come halfway": {node(1, func(n *rota.NodeStatus) { n.RulesVersion = 3 }), "rules",
			Warning, "n1", "knows rules version 2, others 3"},
		"the switch is due": {func(f *Facts) { f.Status.RulesVersion = 1 }, "rules", Warning, "", "switches by itself"},
		"an older node.json": {binary("0.3.1", func(f *Formats) { f.Node = 0 }), "formats", Blocked,
			"", "node.json of format 1"},
		"an older node.json, not written yet": {func(f *Facts) {
			f.Own.Formats.Rules = 3
			f.To = to("0.3.1", func(f *Formats) { f.Node = 0 })
		}, "formats", OK, "", "reads what the nodes write"},
		"an older archive": {binary("0.3.1", func(f *Formats) { f.History = 1 }), "formats", Blocked, "",
			"ended jobs and events of format 2"},
		"an older archive, not written yet": {func(f *Facts) {
			f.Own.Formats.Rules = 3
			f.To = to("0.3.1", func(f *Formats) { f.History = 1 })
		}, "formats", OK, "", "reads what the nodes write"},
		"an older snapshot format": {binary("0.3.1", func(f *Formats) { f.Snapshot = 2 }), "formats", Blocked, "",
			"snapshots and backups of format 3"},
		"a binary without formats": {func(f *Facts) { f.To = &Binary{Version: "0.0.1"} }, "formats", Blocked, "",
			"does not report"},
		"formats are not known": {func(f *Facts) { f.To, f.Own.Version = to("0.3.1", nil), "0.9.0" }, "formats",
			Warning, "", "is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := well()
			one.plant(&f)
			r := f.Judge()
			at := slices.IndexFunc(r.Findings, func(found Finding) bool {
				return found.Check == one.check && found.Result == one.result && found.Node == one.node &&
					strings.Contains(found.Text, one.text)
			})
			if at < 0 {
				t.Fatalf("it is not found: %+v", r.Findings)
			}
			if next := r.Findings[at].Next; one.result == Blocked && next == "" {
				t.Error("a finding lacks its next step")
			}
			if one.result == Blocked && r.Ready {
				t.Error("it is reported as ready")
			}
			if other := slices.IndexFunc(r.Findings, func(found Finding) bool {
				return found.Check == one.check && found.Result == OK
			}); one.result != OK && other >= 0 {
				t.Errorf("%+v is next to it", r.Findings[other])
			}
			if one.result == Warning && !r.Ready {
				t.Errorf("a warning blocks the upgrade: %+v", r.Findings)
			}
		})
	}
}
