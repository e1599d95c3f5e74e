package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/internal/cli"
)

// TestNextTimeOfDay: a time of day is today's, or tomorrow's once that is over, by the calendar of the zone.
func TestNextTimeOfDay(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 24, 14, 5, 0, 0, berlin) // the next night has 25 hours
	for text, want := range map[string]string{"14:06": "2026-10-24T14:06:00+02:00", "14:05": "2026-10-25T14:05:00+01:00",
		"00:00": "2026-10-25T00:00:00+02:00", "24:00": "", "14": "", "2026-10-24": "", "": ""} {
		at, ok := cli.NextTimeOfDay(now, text)
		if got := at.Format(time.RFC3339); ok != (want != "") || ok && got != want {
			t.Errorf("%q: got %s, %v, want %q", text, got, ok, want)
		}
	}
	if err := new(cli.NextValue).Set("25:00"); err == nil || !strings.Contains(err.Error(), "14:05, or a date") {
		t.Errorf("25:00: got %v, want both forms", err)
	}
}
