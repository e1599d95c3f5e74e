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
		// Of events about budgets, and of attempts that report what they used.
		Name   string      `json:"name"`
		Then   string      `json:"then"`
		Budget string      `json:"budget"`
		Of     string      `json:"of"`
		Amount rota.Cost   `json:"amount"`
		Spent  *rota.Costs `json:"spent"`
	}
	switch e.Kind {
	case rota.EventBatchOpened, rota.EventBatchSealed, rota.EventBatchFinished, rota.EventBatchWaits,
		rota.EventPlanStarted, rota.EventPlanFinished,
		rota.EventGateSignalled, rota.EventJobMerged, rota.EventJobChanged, rota.EventWorkflowGrown,
		rota.EventBudgetChanged, rota.EventBudgetGranted:
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
	case rota.EventBudgetChanged:
		s.Of, s.State = p.Name, p.Then
	case rota.EventBudgetGranted:
		s.Of, s.State, s.Amount = p.Budget, p.Of, int64(p.Amount)
	case rota.EventJobCompleted, rota.EventLeaseCancelled, rota.EventLeaseExpired, rota.EventLeaseDeclined,
		rota.EventJobDead, rota.EventJobCancelled:
		if err := json.Unmarshal([]byte(e.Payload), &p); err == nil && p.Spent != nil {
			s.Spends, s.Amount = true, (*p.Spent)["u"]
		}
	default:
		s.Of = p.Batch + p.Signal + p.Merged // an event has one of them
	}
}

// isOfBatch reports whether it is a batch's own event.
func (s *SeenEvent) isOfBatch() bool { return strings.HasPrefix(s.Kind, "batch") }
