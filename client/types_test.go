package client

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
)

// TestWorker_types checks the types that a worker registers when it connects (SPEC §16.2): those that it has handlers
// for, unless one handler accepts every type or the spec names types.
func TestWorker_types(t *testing.T) {
	t.Parallel()
	many := make([]rota.JobType, rota.MaxTypesHandled+1)
	for i := range many {
		many[i] = rota.JobType(fmt.Sprintf("t%04d", i))
	}
	for _, one := range []struct {
		name     string
		named    []rota.JobType
		handlers []rota.JobType
		want     []rota.JobType
	}{
		{"those of its handlers, sorted", nil, []rota.JobType{"shrink", "crop"}, []rota.JobType{"crop", "shrink"}},
		{"every type by one handler", nil, []rota.JobType{"shrink", ""}, nil},
		{"those of its spec", []rota.JobType{"crop"}, []rota.JobType{"shrink", "crop"}, []rota.JobType{"crop"}},
		{"those of its spec with a handler for the rest", []rota.JobType{"crop"}, []rota.JobType{""},
			[]rota.JobType{"crop"}}, {"as many as can be listed", nil, many[1:], many[1:]},
		{"every type where they are too many to tell", nil, many, nil},
	} {
		t.Run(one.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, stop := setup(t, 1)
				defer stop()
				w, err := NewWorker(f.client, rota.WorkerSpec{Queues: []rota.QueueName{"default"}, Slots: 1,
					Types: one.named})
				if err != nil {
					t.Fatal(err)
				}
				for _, typ := range one.handlers {
					w.Handle(typ, newScript().handle)
				}
				ctx, cancel := context.WithCancel(t.Context())
				r := &runningWorker{w, cancel, make(chan error, 1)}
				go func() { r.result <- w.Run(ctx) }()
				s, _ := f.stream()
				var got []rota.JobType
				for _, typ := range s.hello.GetWorker().GetTypes() {
					got = append(got, rota.JobType(typ))
				}
				if !slices.Equal(got, one.want) {
					t.Errorf("got %d types: %q…; want %d: %q…", len(got), got[:min(3, len(got))], len(one.want),
						one.want[:min(3, len(one.want))])
				}
				s.welcome(1)
				r.stopped(t, s)
			})
		})
	}
}
