package transport

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

func TestArchiveRecords_refuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := peersOf(t, setup(t).lis.DialContext)
		many := make([]rota.JobID, maxRecordsAsked+1)
		for i := range many {
			many[i] = rota.JobID(fmt.Sprint("j", i))
		}
		for name, ids := range map[string][]rota.JobID{"none": nil, "too many": many, "no id": {"a b"}} {
			if _, err := p.ArchiveRecords(bounded(t), n1, ids); rota.KindOf(err) != rota.KindInvalid {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := p.ListArchived(bounded(t), n1, rota.JobFilter{Limit: limits.MaxPage + 1},
			0); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("a page beyond the limit: %v", err)
		}
	})
}
