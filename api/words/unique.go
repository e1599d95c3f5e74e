package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/millis"
)

func uniqueTo(u *rota.Unique) *rotav1.Unique {
	if u == nil {
		return nil
	}
	return &rotav1.Unique{Key: u.Key, By: u.By, PeriodMs: millis.Of(u.Period), Scope: u.Scope,
		KeepMs: millis.Of(u.Keep), OnConflict: u.OnConflict, ExtendMaxMs: millis.Of(u.ExtendMax)}
}

func uniqueFrom(w *rotav1.Unique) *rota.Unique {
	if w == nil {
		return nil
	}
	return &rota.Unique{Key: w.GetKey(), By: w.GetBy(), Period: millis.Duration(w.GetPeriodMs()), Scope: w.GetScope(),
		Keep: millis.Duration(w.GetKeepMs()), OnConflict: w.GetOnConflict(),
		ExtendMax: millis.Duration(w.GetExtendMaxMs())}
}

// maxUnique returns its maximum size in a message.
func maxUnique(u *rota.Unique) int {
	if u == nil {
		return 0
	}
	n := 64 + len(u.Key) + len(u.OnConflict)
	for _, list := range [][]string{u.By, u.Scope} {
		for _, text := range list {
			n += len(text) + 8
		}
	}
	return n
}
