package virtual

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// scene is a cluster without faults except those of the test: real nodes, and workers of the client library whose
// handlers are the test's.
type scene struct {
	*testing.T
	*life
	ctx   context.Context
	admin *client.Client

	mu      sync.Mutex
	clients []*client.Client
	workers sync.WaitGroup
	// believe holds the contexts of handlers that have begun, by job.
	believe map[rota.JobID][]context.Context
	begun   map[rota.JobID]int
}

// play runs a scene of three nodes in virtual time.
func play(t *testing.T, settings []rota.Setting, act func(s *scene)) {
	t.Helper()
	playOf(t, 3, settings, act)
}

// playOf is play with the given number of nodes.
func playOf(t *testing.T, nodes int, settings []rota.Setting, act func(s *scene)) {
	t.Helper()
	o := options{seed: 1, nodes: nodes, dir: memoryDir(t), log: slog.New(slog.DiscardHandler)}
	inBubble(t, func(t *testing.T) {
		l := newLife(o)
		l.net.Even = paceMessage
		l.startAll()
		ctx, cancel := context.WithTimeout(l.ctx, 2*time.Hour)
		defer cancel()
		s := &scene{T: t, life: l, ctx: ctx, admin: l.dial("admin", l.servers),
			believe: map[rota.JobID][]context.Context{},
			begun:   map[rota.JobID]int{}}
		s.clients = append(s.clients, s.admin)
		if _, err := s.admin.SetQueue(ctx, queueName, "", settings); err != nil {
			t.Fatal(err)
		}
		act(s)
		s.workers.Wait()
		for _, c := range s.clients {
			_ = c.Close()
		}
		l.end()
		var servers sync.WaitGroup
		for _, s := range l.servers {
			servers.Go(s.stop)
		}
		servers.Wait()
		for _, v := range l.violations {
			t.Error(v)
		}
	})
}

// sceneWorker is one process of a worker; ended receives the result of its Run.
type sceneWorker struct {
	stop  context.CancelFunc
	ended chan error
}

// work starts a worker under an id. Each handler that begins is checked against those of the same job that still
// believe in their leases.
func (s *scene) work(id rota.WorkerID, h client.Handler, opts ...client.WorkerOption) *sceneWorker {
	s.Helper()
	return s.workAt(id, s.servers, h, opts...)
}

// workAt is work for a worker that knows these nodes alone.
func (s *scene) workAt(id rota.WorkerID, nodes []*server, h client.Handler, opts ...client.WorkerOption) *sceneWorker {
	s.Helper()
	c := s.dial(host(id), nodes)
	s.clients = append(s.clients, c)
	w, err := client.NewWorker(c, rota.WorkerSpec{ID: id, Queues: []rota.QueueName{queueName}, Slots: 4},
		append(opts, client.WithClock(s.sinceBoot))...)
	if err != nil {
		s.Fatal(err)
	}
	w.Handle("", func(ctx context.Context, job *client.Job) (client.Result, error) {
		s.begins(ctx, job.ID())
		return h(ctx, job)
	})
	ctx, stop := context.WithCancel(s.ctx)
	k := &sceneWorker{stop, make(chan error, 1)}
	s.workers.Go(func() { k.ended <- w.Run(ctx) })
	return k
}

func (s *scene) begins(ctx context.Context, job rota.JobID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.believe[job] {
		if other.Err() == nil {
			s.Errorf("two handlers of job %s believe that they hold it", job)
		}
	}
	s.believe[job] = append(s.believe[job], ctx)
	s.begun[job]++
}

func (s *scene) submit(id rota.JobID) {
	s.Helper()
	spec := rota.NewJobSpec("scene", nil)
	spec.ID, spec.Queue = id, queueName
	if _, err := s.admin.Submit(s.ctx, spec); err != nil {
		s.Fatal(err)
	}
}

// over waits for a job's end.
func (s *scene) over(id rota.JobID) rota.Job {
	s.Helper()
	if _, err := client.Collect(s.admin.Wait(s.ctx, id)); err != nil {
		s.Fatal(err)
	}
	j, err := s.admin.Job(s.ctx, id)
	if err != nil {
		s.Fatal(err)
	}
	return j
}

// events returns the events of a job so far.
func (s *scene) events(job rota.JobID) []rota.ServedEvent {
	s.Helper()
	all, err := client.Collect(s.admin.Events(s.ctx, rota.EventFilter{Job: job}))
	if err != nil {
		s.Fatal(err)
	}
	return all
}
