package fsm

import (
	"time"

	"github.com/rotasched/rota"
)

// limits decides what may enter and what may start: modes of the cluster, tenants and
// their rates, failure domains, windows.
type limits struct {
	m       *Machine
	tenants table[rota.TenantID, tenantRow, *tenantRow]
	meters  table[string, meterRow, *meterRow]
	domains table[string, domainRow, *domainRow]
}

// exhausted is a refusal that time cures.
func exhausted(subject, format string, args ...any) error {
	e := rota.Refusef(rota.Exhausted, subject, format, args...)
	e.RetryAfter = time.Second
	return e
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] > 127 {
			return false
		}
	}
	return true
}
