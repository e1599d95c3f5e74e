package check

import (
	"slices"
	"testing"

	"github.com/rotasched/rota"
)

// greater is a token of the recovered cluster.
func greater(n uint64) rota.Token { return rota.Token{Incarnation: 7, Counter: n} }

// outlived adds an aftermath that breaks no promise: n4 died and n5 took its place; then n1's disk was recovered, and
// n2's is one entry behind it. Job x was completed before, y was acknowledged last, z after.
func outlived(s *story) {
	a := &Aftermath{Listed: true, Final: slices.Clone(s.h.Final),
		Audit: &AuditOf{Node: "n1", Report: &rota.AuditReport{}}}
	a.Death = &Death{At: ms(70_000), Node: "n4", Next: "n5", Voters: 4, Fewest: 4, Wanted: [2]int64{4, 4},
		HealedMs: 12_000, Gone: []string{"n4"}}
	a.Recovery = &Recovery{At: ms(80_000), Served: ms(95_000), Left: []string{"n1", "n2"}, Heir: "n1",
		Disks: []Disk{{Node: "n1", ClusterID: "c-1", Incarnation: 1, Term: 5, Index: 200},
			{Node: "n2", ClusterID: "c-1", Incarnation: 1, Term: 5, Index: 199},
			{Node: "n3", ClusterID: "c-1", Incarnation: 1, Term: 5, Index: 200}},
		Now:      Disk{ClusterID: "c-2", Incarnation: 7},
		Returned: []Returned{{"n2", false, "belongs to another cluster"}, {"n3", true, "was removed from the cluster"}},
		Members:  []string{"n1", "n6", "n7"}, Wanted: []string{"n1", "n6", "n7"},
		Verdict: &rota.Verdict{Equal: true, Nodes: []rota.NodeVerdict{{ID: "n1"}, {ID: "n6"}, {ID: "n7"}}}}
	op := func(what, job string, at int64, index uint64, t rota.Token) {
		o := Op{Process: "last", Func: what, Job: job, Node: "n1", Invoke: ms(at), Return: ms(at + 5), Outcome: OK,
			Index: index, Token: t}
		if !t.IsZero() {
			o.Lease = job + "-lease-" + t.String()
		}
		if what == OpReport {
			o.Did, o.Output = DidComplete, job+"/"+t.String()
		}
		a.Ops = append(a.Ops, o)
	}
	op(OpSubmit, "x", 75_000, 190, rota.Token{})
	op(OpGrant, "x", 75_100, 0, token(90))
	op(OpReport, "x", 75_200, 0, token(90))
	op(OpSubmit, "y", 79_000, 200, rota.Token{})
	op(OpGrant, "y", 79_100, 0, token(91)) // open when all die
	op(OpForge, "y", 96_000, 0, token(91))
	a.Ops[len(a.Ops)-1].Outcome, a.Ops[len(a.Ops)-1].Kind = Refused, "CONFLICT"
	op(OpSubmit, "z", 97_000, 60, rota.Token{})
	op(OpGrant, "z", 97_100, 0, greater(1))
	for _, j := range []FinalJob{{ID: "x", State: "COMPLETED", Output: "x/1.90"}, {ID: "y", State: "DELAYED"},
		{ID: "z", State: "RUNNING"}} {
		j.Queue = "prey"
		a.Final = append(a.Final, j)
	}
	s.h.After = a
}

// forgotten makes a job unknown at the very end.
func (a *Aftermath) forgotten(job string) {
	a.Final = slices.DeleteFunc(a.Final, func(j FinalJob) bool { return j.ID == job })
}

// find returns the first operation of a kind on a job.
func (a *Aftermath) find(what, job string) *Op {
	i := slices.IndexFunc(a.Ops, func(o Op) bool { return o.Func == what && o.Job == job })
	return &a.Ops[i]
}

// afterwards plants something in the aftermath.
func afterwards(do func(a *Aftermath, r *Recovery)) func(s *story) {
	return func(s *story) {
		outlived(s)
		do(s.h.After, s.h.After.Recovery)
	}
}

func TestDeathBites(t *testing.T) {
	t.Parallel()
	dead := func(do func(d *Death)) func(s *story) {
		return afterwards(func(a *Aftermath, _ *Recovery) { do(a.Death) })
	}
	bites(t, []plant{
		{"nobody_died", "death", afterwards(func(a *Aftermath, _ *Recovery) { a.Death = nil })},
		{"not_healed", "death", dead(func(d *Death) { d.HealedMs = -1 })},
		{"shrunk", "death", dead(func(d *Death) { d.Fewest = 2 })},
		{"fewer_wanted", "death", dead(func(d *Death) { d.Wanted[1] = 3 })},
		{"another_removed", "death", dead(func(d *Death) { d.Gone = append(d.Gone, "n2") })},
	})
	spares(t, []plant{{"nothing_was_wanted", "death", func(*story) {}}, {"well", "death", outlived}})
}

// behind recovers n2's disk, with n1's left or not.
func behind(r *Recovery, left ...string) { r.Heir, r.Left = "n2", left }

func TestRecoveryBites(t *testing.T) {
	t.Parallel()
	bites(t, []plant{
		{"nothing_was_recovered", "recovery", afterwards(func(a *Aftermath, _ *Recovery) { a.Recovery = nil })},
		{"it_never_served", "recovery", afterwards(func(_ *Aftermath, r *Recovery) { r.Served = 0 })},
		{"the_smaller_disk", "recovery", afterwards(func(_ *Aftermath, r *Recovery) { behind(r, "n1", "n2") })},
		{"the_smaller_disk_and_a_job_lost", "recovery", afterwards(func(a *Aftermath, r *Recovery) {
			behind(r, "n2", "n3")
			r.Disks[2].Index = 199
			a.forgotten("y")
		})},
		{"acknowledged_and_gone", "recovery", afterwards(func(a *Aftermath, _ *Recovery) { a.forgotten("y") })},
		{"held_by_the_only_disk_and_gone", "recovery", afterwards(func(a *Aftermath, r *Recovery) {
			behind(r, "n2")
			a.forgotten("x")
		})},
		{"of_the_run_and_gone", "recovery", afterwards(func(a *Aftermath, _ *Recovery) { a.forgotten("b") })},
		{"of_the_run_and_otherwise", "recovery",
			afterwards(func(a *Aftermath, _ *Recovery) { a.Final[0].Output = "a/1.1" })},
		{"completed_and_undone", "recovery", afterwards(func(a *Aftermath, _ *Recovery) {
			a.Final[len(a.Final)-3].State, a.Final[len(a.Final)-3].Output = "QUEUED", ""
		})},
		{"tokens_do_not_grow", "recovery", afterwards(func(a *Aftermath, _ *Recovery) {
			a.find(OpGrant, "z").Token = token(91)
		})},
		{"leased_before_its_worker_stopped_believing", "recovery", afterwards(func(a *Aftermath, _ *Recovery) {
			g := a.find(OpGrant, "z")
			g.Job, g.Lease = "y", "y-lease-"+g.Token.String()
		})},
		{"nothing_was_leased", "recovery", afterwards(func(a *Aftermath, _ *Recovery) {
			a.find(OpGrant, "z").Func = OpGet
		})},
		{"an_old_lease_completes", "recovery", afterwards(func(a *Aftermath, _ *Recovery) {
			a.find(OpForge, "y").Outcome = OK
		})},
		{"no_old_lease_was_tried", "recovery", afterwards(func(a *Aftermath, _ *Recovery) {
			a.find(OpForge, "y").Func = OpWait
		})},
		{"same_incarnation", "recovery", afterwards(func(_ *Aftermath, r *Recovery) { r.Now.Incarnation = 1 })},
		{"an_old_member_came_back", "recovery",
			afterwards(func(_ *Aftermath, r *Recovery) { r.Returned[0].Said = "" })},
		{"an_old_member_is_one", "recovery", afterwards(func(_ *Aftermath, r *Recovery) {
			r.Members = []string{"n1", "n2", "n6", "n7"}
		})},
		{"nobody_came_back", "recovery", afterwards(func(_ *Aftermath, r *Recovery) { r.Returned = nil })},
		{"unequal", "recovery", afterwards(func(_ *Aftermath, r *Recovery) { r.Verdict.Equal = false })},
		{"a_round_does_not_follow", "recovery", afterwards(func(a *Aftermath, _ *Recovery) {
			a.Audit.Report.Difference = &rota.AuditDifference{Index: 7}
		})},
	})
	spares(t, []plant{
		{"well", "recovery", outlived},
		{"after_the_only_disk_s_end_and_gone", "recovery", afterwards(func(a *Aftermath, r *Recovery) {
			behind(r, "n2")
			a.forgotten("y")
		})},
		{"leased_once_its_worker_has_stopped_believing", "recovery", afterwards(func(a *Aftermath, _ *Recovery) {
			g := a.find(OpGrant, "z")
			g.Job, g.Lease, g.Invoke, g.Return = "y", "y-lease-"+g.Token.String(), ms(96_000+60_000), ms(96_005+60_000)
		})},
		{"unknown_and_gone", "recovery", afterwards(func(a *Aftermath, _ *Recovery) {
			a.forgotten("y")
			a.find(OpSubmit, "y").Outcome, a.find(OpSubmit, "y").Return = Unknown, never
			a.find(OpGrant, "y").Func = "unseen"
			f := a.find(OpForge, "y")
			f.Job, f.Token, f.Lease = "x", token(90), "x-lease-1.90"
		})},
	})
}

// An index counts only if the disk ended in the last term: otherwise its entry may be another.
func TestRecovery_holds(t *testing.T) {
	t.Parallel()
	r := &Recovery{Heir: "n1", Left: []string{"n1"}, Disks: []Disk{{Node: "n1", Term: 4, Index: 300},
		{Node: "n2", Term: 5, Index: 200}, {Node: "n3", Term: 5, Index: 199}}}
	if r.holds(100) || r.keepsAll() {
		t.Errorf("a disk of an older term is trusted: %t, %t", r.holds(100), r.keepsAll())
	}
	r.Heir = "n3"
	if !r.holds(199) || r.holds(200) || r.holds(0) || !r.keepsAll() {
		t.Errorf("%t, %t, %t, %t", r.holds(199), r.holds(200), r.holds(0), r.keepsAll())
	}
}
