package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// checkRecovery accounts for every job after one disk was recovered, and for the members of the earlier cluster
// (docs/security.md 5).
func checkRecovery(v *view) (found []Anomaly) {
	if v.After == nil {
		return nil
	}
	r := v.After.Recovery
	if r == nil || r.Served == 0 {
		return []Anomaly{{Text: "no disk was recovered: " + v.After.Error}}
	}
	if text := r.chosenWrong(); text != "" {
		found = append(found, Anomaly{IDs: []string{r.Heir}, At: r.At, Text: text})
	}
	found = append(found, r.staysOut()...)
	after := v.afterwards()
	found = append(found, v.jobsOfTheRun(r)...)
	found = append(found, v.acknowledgedBefore(r, after)...)
	found = append(found, v.tokensGrow(r, after)...)
	found = append(found, v.voidLeasesWait(r, after)...)
	found = append(found, v.judgeAfter(r, after)...)
	return found
}

// chosenWrong returns an error text if the wrong disk became the cluster, or if it is not a separate cluster.
func (r *Recovery) chosenWrong() string {
	heir := r.disk(r.Heir)
	if heir == nil {
		return "the disk of " + r.Heir + ", which was recovered, is not a voter's"
	}
	for _, id := range r.Left {
		if d := r.disk(id); d != nil && !heir.reaches(d) {
			return fmt.Sprintf(
				"%s was recovered, which ends at term %d, index %d; %s was left and ends at term %d, index %d",
				r.Heir, heir.Term, heir.Index, id, d.Term, d.Index)
		}
	}
	if r.Now.ClusterID == heir.ClusterID || r.Now.Incarnation <= heir.Incarnation {
		return fmt.Sprintf("the recovered cluster is %s, incarnation %d; it was %s, incarnation %d", r.Now.ClusterID,
			r.Now.Incarnation, heir.ClusterID, heir.Incarnation)
	}
	return ""
}

// staysOut requires earlier nodes to be refused, and the new members to agree.
func (r *Recovery) staysOut() (found []Anomaly) {
	say := func(format string, args ...any) {
		found = append(found, Anomaly{At: r.Served, Text: fmt.Sprintf(format, args...)})
	}
	if len(r.Returned) == 0 {
		say("no node of before tried to come back")
	}
	for _, n := range r.Returned {
		if n.Said == "" {
			say("%s of the old cluster came back (its disk empty: %t) and was not refused", n.Node, n.Empty)
		}
	}
	if !slices.Equal(r.Members, r.Wanted) {
		say("the recovered cluster has the members %v, want %v", r.Members, r.Wanted)
	}
	if r.Verdict == nil || !r.Verdict.Equal || len(r.Verdict.Nodes) < len(r.Wanted) {
		say("operator verify of the recovered cluster returns %+v", r.Verdict)
	}
	return found
}

// afterwards returns the view of the users' own jobs of the time after the run.
func (v *view) afterwards() *view {
	h := &History{Ops: v.After.Ops, Queues: v.Queues, End: v.End, Changes: v.Changes,
		Liveness: Liveness{Listed: v.After.Listed}}
	for _, j := range v.After.Final {
		if len(v.jobs[j.ID]) == 0 && v.final[j.ID] == nil {
			h.Final = append(h.Final, j)
		}
	}
	return newView(h)
}

// jobsOfTheRun requires each job that the run ended with, unchanged: every voter had applied it.
func (v *view) jobsOfTheRun(r *Recovery) (found []Anomaly) {
	if !v.Liveness.Listed || !v.After.Listed || v.Verdict == nil || !r.keepsAll() && !r.holds(uint64(v.Verdict.Index)) {
		v.undecided = append(v.undecided,
			"recovery: the run's own jobs were not listed at its end, or not after it, or the disk ended before")
		return nil
	}
	now := make(map[string]*FinalJob, len(v.After.Final))
	for i := range v.After.Final {
		now[v.After.Final[i].ID] = &v.After.Final[i]
	}
	for i := range v.Final {
		was := &v.Final[i]
		is := now[was.ID]
		switch {
		case is == nil:
			found = append(found, Anomaly{IDs: []string{was.ID}, At: r.Served, Text: fmt.Sprintf(
				"job %s was %s at the end of the run, and is not known after the recovery", was.ID, was.State)})
		case endKinds[was.State] != "" && (is.State != was.State || is.Output != was.Output):
			found = append(found, Anomaly{IDs: []string{was.ID}, At: r.Served, Text: fmt.Sprintf(
				"job %s was %s with output %q at the end of the run, and is %s with %q after the recovery", was.ID,
				was.State, Short(was.Output), is.State, Short(is.Output))})
		}
	}
	return found
}

// acknowledgedBefore requires each job that the recovered disk held; those that it may have lost are counted.
func (v *view) acknowledgedBefore(r *Recovery, after *view) (found []Anomaly) {
	lost, kept := 0, 0
	for _, id := range after.ids {
		for _, op := range after.jobs[id] {
			if op.Func != OpSubmit || op.Outcome != OK || op.Return > r.At || !after.Liveness.Listed {
				continue
			}
			switch {
			case after.final[id] != nil:
				kept++
			case r.keepsAll(): // checkLost reports it
			case r.holds(op.Index):
				found = append(found, Anomaly{IDs: []string{id}, At: op.Return, Text: fmt.Sprintf(
					"job %s was acknowledged at index %d, the recovered disk ended at %d, and it is not known", id,
					op.Index,
					r.disk(r.Heir).Index)})
			default:
				lost++
			}
		}
	}
	v.figures["recovery_kept"], v.figures["recovery_lost"] = kept, lost
	return found
}

// tokensGrow requires every later token to be greater than all earlier ones.
func (v *view) tokensGrow(r *Recovery, after *view) (found []Anomaly) {
	var most rota.Token
	raise := func(t rota.Token) {
		if most.Compare(t) < 0 {
			most = t
		}
	}
	for i := range v.Ops {
		raise(v.Ops[i].Token)
	}
	for i := range v.Final {
		for _, a := range v.Final[i].Attempts {
			raise(a.Token)
		}
	}
	for i := range after.Ops {
		if after.Ops[i].Invoke <= r.At {
			raise(after.Ops[i].Token)
		}
	}
	granted := 0
	for i := range after.Ops {
		op := &after.Ops[i]
		if op.Func != OpGrant || op.Invoke < r.Served {
			continue
		}
		granted++
		if op.Token.Compare(most) <= 0 {
			found = append(found, Anomaly{IDs: []string{op.Job, op.Lease}, At: op.Invoke, Text: fmt.Sprintf(
				"job %s has token %s after the recovery, and there was %s before it", op.Job, op.Token, most)})
		}
	}
	if granted == 0 {
		found = append(found, Anomaly{At: r.Served, Text: "nothing was leased after the recovery"})
	}
	v.figures["recovery_leases"] = granted
	return found
}

const (
	// voidWaits is how long a job waits whose lease a recovery made void, less the inaccuracy of measuring; freshLease
	// is how short before the end an open lease was granted whose worker need not have acknowledged it yet.
	voidWaits  = int64(58e9)
	freshLease = int64(3e9)
)

// voidLeasesWait requires that no worker is given a job whose lease was open when all died, while its worker may still
// believe in it.
func (v *view) voidLeasesWait(r *Recovery, after *view) (found []Anomaly) {
	if !r.keepsAll() {
		return nil // the lease itself may be lost
	}
	void := 0
	for _, id := range after.ids {
		open := (*Op)(nil)
		for _, op := range after.jobs[id] {
			switch {
			case op.Func == OpGrant && op.Invoke <= r.At:
				open = nil
				if op.Invoke > r.At-freshLease {
					open = op
				}
			case op.Func == OpReport:
				open = nil
			case op.Func == OpGrant && open != nil && op.Invoke < r.Served+voidWaits:
				found = append(found, Anomaly{IDs: []string{id, open.Lease, op.Lease}, At: op.Invoke, Text: fmt.Sprintf(
					"job %s was leased %d ms after the recovery, and %s held it when all died", id,
					(op.Invoke-r.Served)/1e6, open.Process)})
			}
		}
		if open != nil {
			void++
		}
	}
	v.figures["recovery_void_leases"] = void
	return found
}

// judgeAfter judges the usual promises over the users' observations. Where acknowledged data may be lost, only those
// that hold all the same.
func (v *view) judgeAfter(r *Recovery, after *view) (found []Anomaly) {
	usual := []checker{{name: "token", check: checkToken}, {name: "repeat", check: checkRepeat}}
	if r.keepsAll() {
		usual = append(usual, checker{name: "lost", check: checkLost}, checker{name: "linear", check: checkLinear},
			checker{name: "completion", check: checkCompletion})
	} else {
		v.undecided = append(v.undecided,
			"recovery: the disk that was left ends before those that were lost, so later answers may be")
	}
	if v.After.Audit != nil {
		after.Audits = []AuditOf{*v.After.Audit}
		usual = append(usual, checker{name: "audit", check: checkAudit})
	}
	after.drawings = v.drawings
	for _, c := range usual {
		for _, a := range c.check(after) {
			a.Text = "after the run, " + c.name + ": " + a.Text
			found = append(found, a)
		}
	}
	forged, _ := after.figures["forged"].(int)
	v.figures["recovery_old_leases"] = forged
	if forged == 0 {
		found = append(found, Anomaly{At: r.Served,
			Text: "there was no completion with a lease of before the recovery"})
	}
	for _, text := range after.undecided {
		v.undecided = append(v.undecided, "after the run, "+strings.TrimSpace(text))
	}
	v.drawings = after.drawings
	return found
}
