package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
)

type checker struct {
	m      *Machine
	faults []string
	tokens map[rota.Token]rota.LeaseID
	// open counts the leases of a queue; shares those of a tenant in a queue.
	open   map[rota.QueueName]int64
	shares map[share]int64
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < 100 {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

type share struct {
	queue  rota.QueueName
	tenant rota.TenantID
}
