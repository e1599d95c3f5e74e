package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// placement brings jobs to workers: it files what waits, checks what rounds decided,
// and holds workers for jobs that nobody has room for.
type placement struct {
	m        *Machine
	holds    table[rota.JobID, holdRow, *holdRow]
	registry registry
	// rounds are those of the entry that is being applied; items and lives are room for jobs.
	rounds []roundDone
	items  []*sched.Item
	lives  []*jobLife
}

// roundDone is what settleTurns must know of a round applied in this entry.
type roundDone struct {
	queue  rota.QueueName
	placed int
}
