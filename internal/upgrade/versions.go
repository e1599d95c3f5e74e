package upgrade

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rotasched/rota"
)

// MinorsApart is the maximum distance of the minor versions of a cluster's nodes: the support policy.
const MinorsApart = 2

// release is a released version: the numbers of MAJOR.MINOR.
type release struct{ major, minor int }

// releaseOf returns the release that a version names, with or without a v; ok is false for other builds.
func releaseOf(version string) (r release, ok bool) {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) != 3 {
		return r, false
	}
	numbers := make([]int, len(parts))
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return r, false
		}
		numbers[i] = int(n)
	}
	return release{numbers[0], numbers[1]}, true
}

func (r release) before(o release) bool {
	return r.major < o.major || r.major == o.major && r.minor < o.minor
}

func (r release) String() string { return fmt.Sprintf("v%d.%d", r.major, r.minor) }

// versions reports which nodes run which version, and whether the new binary may run with them.
func (j *judge) versions() {
	of := make(map[string][]string)
	var all []string
	for _, n := range j.answering() {
		if of[n.Version] == nil {
			all = append(all, n.Version)
		}
		of[n.Version] = append(of[n.Version], string(n.ID))
	}
	slices.Sort(all)
	if len(all) > 1 {
		var texts []string
		for _, version := range all {
			texts = append(texts, version+" on "+strings.Join(of[version], ", "))
		}
		j.say(Warning, "", "they are mixed: "+strings.Join(texts, "; "),
			"an upgrade is in progress: end it before another begins")
	}
	j.apart(all)
	if j.To != nil {
		for _, version := range all {
			j.coexists(version, of[version])
		}
	}
	j.fine("all run " + strings.Join(all, ", "))
}

// apart reports whether the running versions are further apart than is supported.
func (j *judge) apart(versions []string) {
	var oldest, newest release
	for _, version := range versions {
		r, ok := releaseOf(version)
		if !ok {
			continue
		}
		if newest == (release{}) {
			oldest, newest = r, r
		}
		if r.before(oldest) {
			oldest = r
		}
		if newest.before(r) {
			newest = r
		}
	}
	if oldest.major != newest.major || newest.minor-oldest.minor > MinorsApart {
		j.say(Blocked, "", fmt.Sprintf("%s and %s run in one cluster: at most %d minor versions apart are supported",
			oldest, newest, MinorsApart),
			"bring the older ones up first")
	}
}

// coexists reports whether the new binary is supported together with nodes of a version.
func (j *judge) coexists(version string, nodes []string) {
	to, known := releaseOf(j.To.Version)
	from, ok := releaseOf(version)
	who := rota.NodeID(nodes[0])
	switch {
	case !known || !ok:
		j.say(Warning, who, fmt.Sprintf("%s to %s: not both are releases, so the support policy does not cover them",
			version, j.To.Version), "try it on another cluster first")
	case to.major != from.major:
		j.say(Blocked, who, fmt.Sprintf("%s to %s is another major version", version, j.To.Version),
			"read that version's release notes: they name the versions that can be upgraded")
	case to.minor-from.minor > MinorsApart:
		step := release{from.major, from.minor + MinorsApart}
		j.say(Blocked, who, fmt.Sprintf("%s to %s is more than %d minor versions", version, j.To.Version, MinorsApart),
			"upgrade all nodes to "+step.String()+" first")
	case from.minor-to.minor > MinorsApart:
		j.say(Blocked, who, fmt.Sprintf("%s to %s is more than %d minor versions back", version, j.To.Version,
			MinorsApart), "restore a backup from before into a new cluster")
	case to.minor < from.minor:
		j.say(Warning, who, fmt.Sprintf("%s to %s is a way back: it is open until newer rules are in force", version,
			j.To.Version), "")
	}
}

// rules reports which version is in force, and what will happen to it.
func (j *judge) rules() {
	inForce := j.Status.RulesVersion
	least, most := uint32(0), inForce
	for _, n := range j.answering() {
		if n.Voter && (least == 0 || n.RulesVersion < least) {
			least = n.RulesVersion
		}
		most = max(most, n.RulesVersion)
	}
	switch {
	case least > inForce:
		j.say(Warning, "", fmt.Sprintf(
			"version %d is in force and every voter knows %d: it switches by itself within seconds, and there is no way back then",
			inForce, least), "check again once it has")
	case most > inForce:
		for _, n := range j.answering() {
			if n.Voter && n.RulesVersion < most {
				j.say(Warning, n.ID, fmt.Sprintf(
					"knows rules version %d, others %d: version %d stays in force until it runs a newer binary",
					n.RulesVersion, most, inForce), "upgrade it to end the upgrade in progress")
			}
		}
	}
	if j.To == nil || j.To.Formats == nil {
		j.fine(fmt.Sprintf("version %d is in force, the nodes know up to %d", inForce, most))
		return
	}
	switch to := j.To.Formats.Rules; {
	case to < inForce:
		j.say(Blocked, "", fmt.Sprintf("version %d is in force, and %s knows %d: it does not start in this cluster",
			inForce, j.To.Version, to), "take a newer binary")
	case to > inForce:
		j.say(OK, "", fmt.Sprintf(
			"version %d is in force, %s knows %d: the leader switches once all voters run it, and until then there is a way back",
			inForce, j.To.Version, to), "")
	}
	j.fine(fmt.Sprintf("version %d is in force, and %s has no newer one", inForce, j.To.Version))
}

// formats reports whether the new binary reads the nodes' files.
func (j *judge) formats() {
	if j.To == nil {
		j.say(OK, "", "not looked at: --to names the new binary", "")
		return
	}
	if j.To.Formats == nil {
		j.say(Blocked, "", j.To.Version+" does not report which formats it reads: it is older than this check",
			"use a newer binary")
		return
	}
	to := *j.To.Formats
	if j.Own.Formats != nil && !slices.ContainsFunc(j.answering(),
		func(n rota.NodeStatus) bool { return n.Version != j.Own.Version }) {
		own := *j.Own.Formats
		if j.Status.RulesVersion < own.Rules { // these do not change until newer rules are in force
			own.Node, own.History = min(own.Node, to.Node), min(own.History, to.History)
		}
		for _, one := range []struct {
			what    string
			own, to uint32
		}{{"node.json", own.Node, to.Node}, {"snapshots and backups", own.Snapshot,
			to.Snapshot}, {"ended jobs and events", own.History, to.History}} {
			if one.to < one.own {
				j.say(Blocked, "", fmt.Sprintf("%s of format %d are written, and %s reads up to %d", one.what, one.own,
					j.To.Version, one.to), "take a newer binary")
			}
		}
	} else {
		j.say(Warning, "", "which file formats the nodes write is not known: this binary is "+j.Own.Version+
			", and not all of them run it", "check with the binary that they run")
	}
	j.fine(j.To.Version + " reads what the nodes write")
}
