package upgrade

import (
	"fmt"
	"time"

	"github.com/rotasched/rota"
)

const (
	// maxSkew is how far a wall clock may be off; nodes use the same limit.
	maxSkew = 500 * time.Millisecond
	// certificateSoon is when the expiry of a certificate is reported, as by the alert; certificateNow is when it would
	// expire during an upgrade.
	certificateSoon = 14 * 24 * time.Hour
	certificateNow  = 24 * time.Hour
	// backupOld is the age at which a backup no longer counts as recent.
	backupOld = 24 * time.Hour
	// snapshotSpare is added to the space of a snapshot and of one being written next to it.
	snapshotSpare = 64 << 20
)

// clocks reports whose wall clock is off.
func (j *judge) clocks() {
	for _, n := range j.answering() {
		if n.WallSkew > maxSkew || n.WallSkew < -maxSkew {
			j.say(Blocked, n.ID, fmt.Sprintf("its clock is %s off the voters' median", n.WallSkew),
				"synchronise it: docs/runbooks/RotaClockOff.md")
		}
	}
	j.fine(fmt.Sprintf("all within %s of the voters' median", maxSkew))
}

// certificates reports which expire soon: a node does not start with an expired one.
func (j *judge) certificates() {
	shown := false
	for _, n := range j.answering() {
		if n.CertificateEnds == 0 {
			continue
		}
		shown = true
		left := time.UnixMilli(int64(n.CertificateEnds)).Sub(j.Now)
		switch next := "have a new one issued, it is read without a restart: docs/runbooks/RotaCertificateEnds.md"; {
		case left <= 0:
			j.say(Blocked, n.ID, fmt.Sprintf("its certificate ended %s: it does not start again with it",
				n.CertificateEnds), next)
		case left < certificateNow:
			j.say(Blocked, n.ID, fmt.Sprintf("its certificate ends %s", n.CertificateEnds), next)
		case left < certificateSoon:
			j.say(Warning, n.ID, fmt.Sprintf("its certificate ends %s", n.CertificateEnds), next)
		}
	}
	if !shown {
		j.fine("the nodes have none")
	}
	j.fine(fmt.Sprintf("none ends within %d days", certificateSoon/(24*time.Hour)))
}

// disk reports where a snapshot has no room: one is written while the last still exists.
func (j *judge) disk() {
	need := 2*j.Status.StateBytes + snapshotSpare
	least := int64(-1)
	for _, n := range j.answering() {
		if n.DiskTotal == 0 {
			j.say(Warning, n.ID, "does not know how much of its disk is free",
				"look yourself: df under its data directory")
			continue
		}
		if n.DiskFree < need {
			j.say(Blocked, n.ID, fmt.Sprintf("has %d MiB free, and two snapshots may take %d MiB", n.DiskFree>>20,
				need>>20), "free space: docs/runbooks/RotaDiskLow.md")
		}
		if least < 0 || n.DiskFree < least {
			least = n.DiskFree
		}
	}
	j.fine(fmt.Sprintf("each has %d MiB free or more, and two snapshots may take %d MiB", least>>20, need>>20))
}

// backup reports the age of the last backup that the cluster knows of.
func (j *judge) backup() {
	const next = "rota operator backup now, or rota operator snapshot save FILE"
	b := j.Status.Backup
	if b == nil {
		j.say(Warning, "", "the cluster knows of no backup: it is the only way back once newer rules are in force",
			next)
		return
	}
	if age := j.Now.Sub(time.UnixMilli(int64(b.Date))); age > backupOld {
		j.say(Warning, "", fmt.Sprintf("the last backup that the cluster knows of is of %s", b.Date), next)
	}
	j.fine(fmt.Sprintf("%s of %s", b.Name, b.Date))
}

// mode reports why the cluster does not admit everything.
func (j *judge) mode() {
	if s := j.Status; s.Mode != rota.ModeNormal {
		text := "the cluster is " + s.Mode.String()
		if s.ModeReason != "" {
			text += ": " + s.ModeReason
		}
		j.say(Warning, "", text,
			"an upgrade does not change it; rota mode get shows its start, rota mode set NORMAL ends it")
	}
	j.fine("NORMAL")
}
