package verbs

import (
	"context"
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/zones"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/cron"
	"github.com/rotasched/rota/internal/peer"
)

// InstallTZData puts a release of the time zone database into force on the whole cluster (SPEC §17.7). The state
// machine does not open the data, so this function rejects data that is unreadable, older, or lacks a zone that a
// schedule uses.
func (sv *ScheduleVerbs) InstallTZData(ctx context.Context, t rota.TZInstall) (rota.TZData, error) {
	if err := t.CheckShape(); err != nil {
		return rota.TZData{}, err
	}
	if wall := rota.DateOf(sv.n.Wall()); t.Released > wall+24*3600*1000 {
		return rota.TZData{}, rota.Refusef(rota.KindInvalid, "released",
			"released: got %s, want a date that has passed", t.Released)
	}
	opened, err := cron.Open(t.Release, t.Released, t.Data)
	if err != nil {
		return rota.TZData{}, err
	}
	var last zones.InForce
	used := make(map[string]int)
	if err := sv.n.Replica.View(func(s *fsm.View) {
		last = zones.Of(s)
		used = zones.Used(s)
	}); err != nil {
		return rota.TZData{}, err
	}
	if now := last.Report(); !t.Older && t.Release < now.Release {
		return rota.TZData{}, rota.Refusef(rota.KindConflict, "release",
			"release: got %s, want %s or newer, which is in force; pass --older to install it all the same",
			t.Release, now.Release)
	}
	for _, zone := range slices.Sorted(maps.Keys(used)) {
		if _, err := opened.Zone(zone); err != nil {
			return rota.TZData{}, rota.Refusef(rota.KindConflict, "tzdata",
				"tzdata: release %s lacks the zone %.80q of %d active schedules; "+
					"set them to another zone first (rota schedule list)", t.Release, zone, used[zone])
		}
	}
	_, index, err := sv.n.ProposeOne(ctx,
		&fsmpb.Op{Op: &fsmpb.Op_SetTzdata{SetTzdata: &fsmpb.SetTZData{Release: t.Release,
			ReleasedMs: int64(t.Released), Data: t.Data}}})
	if err != nil {
		return rota.TZData{}, err
	}
	after := peer.ReadOptions{MinIndex: index}
	now, _, err := replica.Read(ctx, sv.n.Replica, after, func(s *fsm.View) (rota.TZData, error) {
		t, _, _ := fsm.InstalledTZData(s)
		return t, nil
	})
	return now, err
}
