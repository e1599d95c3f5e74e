package flowfile

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/jsonparts"
)

// Limits are rules of keys and budgets, as the API has them.
type Limits struct {
	Keys    []rota.KeyRule `json:"keys"`
	Budgets []rota.Budget  `json:"budgets"`
}

// ParseLimits reads a file of limits, in YAML or JSON: {keys: [{name, concurrency, …}], budgets: [{name, limit, …}]}.
// Limits of a queue are refused: they are for one queue.
func ParseLimits(text []byte) (*Limits, error) {
	var any map[string]any
	if err := strictYAML(text, "a file of limits", &any); err != nil {
		return nil, err
	}
	data, err := json.Marshal(any)
	if err != nil {
		return nil, fmt.Errorf("not a file of limits: %w", err)
	}
	l := new(Limits)
	if err := jsonparts.Read(data, l, true); err != nil {
		return nil, fmt.Errorf("not a file of limits: %w", readable(err))
	}
	if len(l.Keys)+len(l.Budgets) == 0 {
		return nil, errors.New("no limits: use {keys: [{name, concurrency, …}], budgets: [{name, unit, limit, …}]}")
	}
	for i := range l.Keys {
		r := &l.Keys[i]
		if err := limitOf(fmt.Sprintf("keys[%d]", i), r.Queue, r.Check()); err != nil {
			return nil, err
		}
	}
	for i := range l.Budgets {
		b := &l.Budgets[i]
		if err := limitOf(fmt.Sprintf("budgets[%d]", i), b.Queue, b.Check()); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// limitOf returns why the limit at a place is refused.
func limitOf(place string, queue rota.QueueName, fault error) error {
	if fault != nil {
		return fmt.Errorf("%s: %w", place, fault)
	}
	if queue != "" {
		return rota.Refusef(rota.KindInvalid, "queue", "%s.queue: got %s; omit it, since one queue is simulated", place,
			queue)
	}
	return nil
}
