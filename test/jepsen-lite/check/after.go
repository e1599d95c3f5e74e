package check

import "github.com/rotasched/rota"

// Aftermath is the phase after the run, where it was requested: a node that died for good, and a majority of disks that
// were lost. Its operations are its users' own.
type Aftermath struct {
	Ops      []Op      `json:"ops"`
	Death    *Death    `json:"death,omitempty"`
	Recovery *Recovery `json:"recovery,omitempty"`
	// Final are all jobs at the very end, including those of the run, where they could be Listed.
	Final  []FinalJob `json:"final"`
	Listed bool       `json:"listed"`
	// Audit is the audit of the recovered disk.
	Audit *AuditOf `json:"audit,omitempty"`
	// Error is the error that stopped it.
	Error string `json:"error,omitempty"`
}

// Death is a voter that was destroyed with its disk while jobs were submitted, and a new node
// that joined.
type Death struct {
	At   int64  `json:"at"`
	Node string `json:"node"`
	Next string `json:"next"`
	// Voters is the number before, Fewest the fewest seen at once from then on; Wanted is voters_wanted before and
	// after.
	Voters int      `json:"voters"`
	Fewest int      `json:"fewest"`
	Wanted [2]int64 `json:"wanted"`
	// HealedMs is how long it took until the dead node was no longer a member and the new one voted, −1 for never.
	HealedMs int64 `json:"healed_ms"`
	// Gone are the earlier members that are no longer members.
	Gone []string `json:"gone"`
	Text string   `json:"text,omitempty"`
}

// Disk is the report of operator recover on one disk.
type Disk struct {
	Node        string         `json:"node"`
	ClusterID   rota.ClusterID `json:"cluster_id"`
	Incarnation uint64         `json:"incarnation"`
	Term        uint64         `json:"last_term"`
	Index       uint64         `json:"last_index"`
	Digest      string         `json:"digest"`
}

// reaches reports whether a disk holds everything that is committed and on another one.
func (d *Disk) reaches(o *Disk) bool {
	return d.Term > o.Term || d.Term == o.Term && d.Index >= o.Index
}

// Recovery is a cluster that lost the disks of a majority, and continued with one.
type Recovery struct {
	// At is when all voters were dead, Served when the recovered disk's node served, 0 for never.
	At     int64 `json:"at"`
	Served int64 `json:"served"`
	// Disks are those of all voters when they died. Left are the nodes whose disks could be read then, Heir is the node
	// that was recovered.
	Disks []Disk   `json:"disks"`
	Left  []string `json:"left"`
	Heir  string   `json:"heir"`
	// Now is the resulting cluster.
	Now      Disk       `json:"now"`
	Returned []Returned `json:"returned"`
	// Members and Verdict describe the recovered cluster at the end, Wanted are the expected members.
	Members []string      `json:"members"`
	Wanted  []string      `json:"wanted"`
	Verdict *rota.Verdict `json:"verdict"`
}

// Returned is an earlier node that came back to the recovered cluster; field Said has the text of its refusal, empty if
// it was not refused.
type Returned struct {
	Node string `json:"node"`
	// Empty means that its disk was empty.
	Empty bool   `json:"empty,omitempty"`
	Said  string `json:"said"`
}

// disk returns the disk of a node, nil if the node was not a voter.
func (r *Recovery) disk(node string) *Disk {
	for i := range r.Disks {
		if r.Disks[i].Node == node {
			return &r.Disks[i]
		}
	}
	return nil
}

// keepsAll reports whether nothing that was acknowledged may be lost: an operator who can read a majority of the disks
// chooses the one that goes furthest; and one that goes as far as a majority's do holds everything, no matter which
// disks could be read.
func (r *Recovery) keepsAll() bool {
	heir, reached := r.disk(r.Heir), 0
	for i := range r.Disks {
		if heir != nil && heir.reaches(&r.Disks[i]) {
			reached++
		}
	}
	most := len(r.Disks)/2 + 1
	return len(r.Left) >= most || reached >= most
}

// holds reports whether the recovered disk had the entry that was acknowledged with an index before the end. It must
// have ended in the last term that any disk knows: otherwise its entry of that index may be another.
func (r *Recovery) holds(index uint64) bool {
	heir := r.disk(r.Heir)
	if heir == nil || index == 0 || index > heir.Index {
		return false
	}
	for i := range r.Disks {
		if r.Disks[i].Term > heir.Term {
			return false
		}
	}
	return true
}
