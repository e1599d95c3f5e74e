package rotatest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/client/rotatest"
)

// model is a stub of a model server that counts the tokens of each minute, and answers 429 once.
type model struct {
	t  *testing.T
	mu sync.Mutex
	// calls are those that were answered, most how many tokens of them a minute may have.
	calls []call
	most  int
	// refusal is the date of the only 429. No call may come for pause after it.
	refusal time.Time
	refuses bool
	pause   time.Duration
}

type call struct {
	at     time.Time
	tokens int
}

// late is how long a call may come after its attempt was assigned.
const late = time.Second

// ask answers a call, unless it is the one to refuse.
func (m *model) ask(tokens int) (answered bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.refuses && len(m.calls) == 20 {
		m.refuses, m.refusal = false, now
		return false
	}
	if since := now.Sub(m.refusal); since > late && since < m.pause {
		m.t.Errorf("a call came %s after the refusal, want none for %s", since, m.pause)
	}
	m.calls = append(m.calls, call{now, tokens})
	sum := 0
	for i := len(m.calls) - 1; i >= 0 && now.Sub(m.calls[i].at) < time.Minute-late; i-- {
		sum += m.calls[i].tokens
	}
	if sum > m.most {
		m.t.Errorf("call %d: %d tokens in a minute, want at most %d", len(m.calls), sum, m.most)
	}
	return true
}

// TestLimits_model has eight slots of two workers call a model that allows 2,000 tokens a minute and 500 more at once.
// Attempts use what they were estimated for, or less: the model is never asked for more, and nearly all it allows is
// used. After a 429 no call comes until the date that it gave.
func TestLimits_model(t *testing.T) {
	rotatest.Run(t, func(c *rotatest.Cluster) {
		const rate, burst, jobs = 2_000, 500, 60
		ctx, cl := c.Context(), c.Client()
		err := cl.Keys().SetRule(ctx, rota.KeyRule{Name: "model", Rate: rate, PeriodMs: 60_000, Burst: burst, Unit: "tokens"})
		if err != nil {
			t.Fatal(err)
		}
		m := &model{t: t, most: rate + burst, refuses: true, pause: 40 * time.Second}
		ask := client.Define[int, string]("ask")
		began := time.Now()
		stop, cancel := context.WithCancel(ctx)
		done := make(chan error, 2)
		for i := range 2 {
			w, err := client.NewWorker(cl, rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprint("w", i)),
				Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 4}, c.Clock())
			if err != nil {
				t.Fatal(err)
			}
			ask.Handle(w, func(_ context.Context, job *client.Job, tokens int) (string, error) {
				if !m.ask(tokens) {
					return "", client.RetryAfterKey("model:opus", m.pause, errors.New("429"))
				}
				time.Sleep(1500 * time.Millisecond)
				return "answer", job.Spend("tokens", float64(tokens))
			})
			go func() { done <- w.Run(stop) }()
		}
		total := 0
		for i := range jobs {
			estimate := 60 + 37*i%340
			used := estimate * (100 - 10*(i%3)) / 100
			total += used
			if _, err := ask.Submit(ctx, cl, used, client.ID(rota.JobID(fmt.Sprint("q", i))), client.Key("model", "opus"),
				client.Cost("tokens", float64(estimate))); err != nil {
				t.Fatal(err)
			}
		}
		ideal := time.Duration(total-burst) * time.Minute / rate
		c.Advance(2*ideal + m.pause)
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.calls) != jobs || m.refusal.IsZero() {
			t.Fatalf("%d calls were answered, want %d; refused at %s", len(m.calls), jobs, m.refusal)
		}
		if took := m.calls[jobs-1].at.Sub(began); took > ideal*5/4+m.pause {
			t.Errorf("%d tokens took %s, want about %s and a pause", total, took, ideal)
		}
		for i := range jobs {
			isState(t, c, rota.JobID(fmt.Sprint("q", i)), rota.JobCompleted)
		}
		job, err := cl.Job(ctx, "q0")
		if err != nil || job.Spent["tokens"] != 60*rota.CostUnit {
			t.Errorf("q0 spent %v, %v", job.Spent, err)
		}
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
