package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// tzdataInstalled is the payload of the event.
type tzdataInstalled struct {
	Release string `json:"tzdata"`
	SHA256  string `json:"sha256"`
}

// setTZData puts a release of the time zone database into force. Installing the same again changes nothing.
func (sc *schedules) setTZData(op *fsmpb.SetTZData) *fsmpb.Outcome {
	given := rota.TZInstall{Release: op.GetRelease(), Released: rota.Date(op.GetReleasedMs()), Data: op.GetData()}
	if err := given.CheckShape(); err != nil {
		return entry.Refused(err)
	}
	if sc.s.head.cluster == "" {
		return entry.Refused(rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again"))
	}
	r := &tzdataRow{release: given.Release, released: given.Released, data: bytes.Clone(given.Data), sum: sha256.Sum256(given.Data),
		index: sc.s.at, at: sc.s.head.date(), by: sc.s.journal.caller.Actor}
	last := sc.s.tzdata.get("")
	if last != nil && last.release == r.release && last.released == r.released && last.sum == r.sum {
		return &fsmpb.Outcome{Existed: true}
	}
	if last != nil {
		sc.s.tzdata.drop("")
	}
	sc.s.tzdata.insert("", r)
	sc.s.journal.emit(rota.Event{Kind: rota.EventClusterChanged, Payload: payload(tzdataInstalled{r.release, hex.EncodeToString(r.sum[:])})})
	return &fsmpb.Outcome{}
}

// sameZones refuses dates that were calculated by other time zones than the installed ones.
func (sc *schedules) sameZones(name string) error {
	r := sc.s.tzdata.get("")
	if r == nil {
		return nil
	}
	t := r.words()
	if want := t.Name(); name != want {
		return rota.Refusef(rota.KindStale, "tzdata", "tzdata: got dates calculated by %.80q, want those of %s, which is in force; calculate again", name, want)
	}
	return nil
}

// InstalledTZData returns the installed release of the time zone database and its packed zones, which never change;
// false where none is installed and each node uses the release in its binary.
func InstalledTZData(vw *View) (t rota.TZData, data []byte, ok bool) {
	r := vw.m.tzdata.get("")
	if r == nil {
		return t, nil, false
	}
	return r.words(), r.data, true
}

// tzdata checks the row of the installed release.
func (c *checker) tzdata() {
	c.m.tzdata.scan(func(_ string, r *tzdataRow) bool {
		given := rota.TZInstall{Release: r.release, Released: r.released, Data: r.data}
		if err := given.CheckShape(); err != nil || r.sum != sha256.Sum256(r.data) || r.index == 0 || r.index > c.m.head.index {
			c.fault("the time zones of release %q, installed by entry %d of %d, are unsound: %v", r.release, r.index, c.m.head.index, err)
		}
		if c.m.head.rules < 2 {
			c.fault("time zones are installed, and rules version %d is in force", c.m.head.rules)
		}
		return true
	})
}
