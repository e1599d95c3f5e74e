package nearest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"", "COMPLETED", "CANCELLED", "DEAD", "lease_ms", "queue_cap"}
	for typed, want := range map[string]string{
		"completed": "COMPLETED", "COMPLTED": "COMPLETED", "CANCELED": "CANCELLED", "lease": "lease_ms",
		"queuecap": "queue_cap",
		"Dead":     "DEAD", "x": "", "": "", "DE": "", "nonsense": "", strings.Repeat("D", 1000): "",
	} {
		if got := Name(typed, names); got != want {
			t.Errorf("%q is near %q, want %q", typed, got, want)
		}
	}
}
