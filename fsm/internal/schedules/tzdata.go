package schedules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
)

// tzdataInstalled is the payload of the event.
type tzdataInstalled struct {
	Release string `json:"tzdata"`
	SHA256  string `json:"sha256"`
}

// setTZData puts a release of the time zone database into force. Installing the same one again changes nothing.
func (sc *Schedules) setTZData(op *fsmpb.SetTZData) *fsmpb.Outcome {
	given := rota.TZInstall{Release: op.GetRelease(), Released: rota.Date(op.GetReleasedMs()), Data: op.GetData()}
	if err := given.CheckShape(); err != nil {
		return entry.Refused(err)
	}
	if sc.s.Header.Cluster == "" {
		return entry.Refused(rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again"))
	}
	r := &state.TzdataRow{Release: given.Release, Released: given.Released, Data: bytes.Clone(given.Data),
		Sum: sha256.Sum256(given.Data), Index: sc.s.At, At: sc.s.Header.Date(), By: sc.s.Journal.Caller.Actor}
	last := sc.s.ZoneTable.Get("")
	if last != nil && last.Release == r.Release && last.Released == r.Released && last.Sum == r.Sum {
		return &fsmpb.Outcome{Existed: true}
	}
	if last != nil {
		sc.s.ZoneTable.Drop("")
	}
	sc.s.ZoneTable.Insert("", r)
	sc.s.Journal.Emit(rota.Event{Kind: rota.EventClusterChanged,
		Payload: state.Payload(tzdataInstalled{r.Release, hex.EncodeToString(r.Sum[:])})})
	return &fsmpb.Outcome{}
}

// SameZones refuses dates that were calculated with other time zones than the installed ones.
func (sc *Schedules) SameZones(name string) error {
	r := sc.s.ZoneTable.Get("")
	if r == nil {
		return nil
	}
	t := r.Words()
	if want := t.Name(); name != want {
		return rota.Refusef(rota.KindStale, "tzdata",
			"tzdata: got dates calculated by %.80q, want those of %s, which is in force; calculate again", name, want)
	}
	return nil
}

// CheckZones checks the row of the installed release.
func (sc *Schedules) CheckZones(fault func(format string, args ...any)) {
	sc.s.ZoneTable.Scan(func(_ string, r *state.TzdataRow) bool {
		given := rota.TZInstall{Release: r.Release, Released: r.Released, Data: r.Data}
		if err := given.CheckShape(); err != nil || r.Sum != sha256.Sum256(r.Data) || r.Index == 0 ||
			r.Index > sc.s.Header.Index {
			fault("the time zones of release %q, installed by entry %d of %d, are unsound: %v", r.Release, r.Index,
				sc.s.Header.Index, err)
		}
		if sc.s.Header.Rules < 2 {
			fault("time zones are installed, and rules version %d is in force", sc.s.Header.Rules)
		}
		return true
	})
}
