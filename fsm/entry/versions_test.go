package entry

import (
	"testing"

	"github.com/rotasched/rota/fsm/fsmpb"
)

func TestSettingsNeed(t *testing.T) {
	t.Parallel()
	table := []newer{{key: "backfill", value: "all", version: 2}, {key: "depth", version: 3},
		{key: "preset", value: "night", version: 4}, {key: "width", above: 10, version: 5}}
	set := func(preset string, pairs ...string) *fsmpb.SetQueue {
		op := &fsmpb.SetQueue{Name: "q", Preset: preset}
		for i := 0; i < len(pairs); i += 2 {
			op.Set = append(op.Set, &fsmpb.Label{Key: pairs[i], Value: pairs[i+1]})
		}
		return op
	}
	for _, c := range []struct {
		op   *fsmpb.SetQueue
		want uint32
	}{
		{set(""), FirstRules},
		{set("standard", "backfill", "easy", "ranking", "all"), FirstRules},
		{set("", "ranking", "fifo", "backfill", "all"), 2},
		{set("", "depth", "1", "backfill", "all"), 3},
		{set("", "Backfill ", " ALL"), 2},
		{set("", "width", "10", "width", "11x"), FirstRules},
		{set("", "width", " 11 "), 5},
		{set("night"), 4},
		{set("night", "depth", ""), 4},
	} {
		if got := settingsNeed(c.op, table); got != c.want {
			t.Errorf("%v needs version %d, want %d", c.op, got, c.want)
		}
	}
}
