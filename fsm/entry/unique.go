package entry

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/millis"
)

func uniqueTo(u *rota.Unique) *fsmpb.Unique {
	if u == nil {
		return nil
	}
	return &fsmpb.Unique{Key: u.Key, By: u.By, PeriodMs: millis.Of(u.Period), Scope: u.Scope, KeepMs: millis.Of(u.Keep),
		OnConflict: u.OnConflict, ExtendMaxMs: millis.Of(u.ExtendMax)}
}

func uniqueFrom(p *fsmpb.Unique) *rota.Unique {
	if p == nil {
		return nil
	}
	return &rota.Unique{Key: p.GetKey(), By: p.GetBy(), Period: millis.Duration(p.GetPeriodMs()), Scope: p.GetScope(),
		Keep: millis.Duration(p.GetKeepMs()), OnConflict: p.GetOnConflict(),
		ExtendMax: millis.Duration(p.GetExtendMaxMs())}
}
