package check

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rotasched/rota"
)

// readPayload records the parts of an event's payload that checkers need.
func (s *SeenEvent) readPayload(e *rota.ServedEvent) {
	var p struct {
		Batch    string `json:"batch"`
		Plan     string `json:"plan"`
		Signal   string `json:"signal"`
		Merged   string `json:"merged"`
		Queue    string `json:"queue"`
		State    string `json:"state"`
		Done     uint64 `json:"done"`
		Refused  int64  `json:"refused"`
		Children uint64 `json:"children"`
	}
	switch e.Kind {
	case rota.EventBatchOpened, rota.EventBatchSealed, rota.EventBatchFinished, rota.EventBatchWaits,
		rota.EventPlanStarted, rota.EventPlanFinished,
		rota.EventGateSignalled, rota.EventJobMerged, rota.EventJobChanged, rota.EventWorkflowGrown:
		if err := json.Unmarshal([]byte(e.Payload), &p); err != nil {
			s.Wrong = fmt.Sprintf("payload %q: %v", Short(e.Payload), err)
		}
	case rota.EventGateWaiting:
		s.Date = e.Deadline.Date
	case rota.EventJobCompleted, rota.EventJobExpired:
		if e.Reason == rota.ReasonGateTimeout {
			s.Date = e.Date
		}
	}
	switch e.Kind {
	case rota.EventPlanStarted, rota.EventPlanFinished:
		s.Of, s.State, s.Count, s.Refused = p.Plan, p.State, p.Done, p.Refused
	case rota.EventJobChanged:
		s.Of = p.Queue
	case rota.EventWorkflowGrown:
		s.Count = p.Children
	default:
		s.Of = p.Batch + p.Signal + p.Merged // an event has one of them
	}
}

// isOfBatch reports whether it is a batch's own event.
func (s *SeenEvent) isOfBatch() bool { return strings.HasPrefix(s.Kind, "batch") }
