package client_test

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// aNode starts the one node that the examples share, on first use.
var aNode = sync.OnceValue(func() *rig.Node {
	dir, err := os.MkdirTemp("", "rota-examples-")
	if err != nil {
		panic(err)
	}
	binary, err := rig.Build(dir)
	if err != nil {
		panic(err)
	}
	nodes, err := rig.NewNodes(1, dir, binary)
	if err != nil {
		panic(err)
	}
	nodes.Found()
	client.AfterTests = func() {
		nodes.Kill()
		_ = os.RemoveAll(dir)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := nodes.Start(ctx); err != nil {
		panic(err)
	}
	return nodes[0]
})

// connect returns a client of a cluster of one node that has these queues, and a context with a short deadline.
func connect(queues ...rota.QueueName) (*client.Client, context.Context, func()) {
	c, err := client.Dial([]string{aNode().API})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	for _, q := range queues {
		if _, err := c.SetQueue(ctx, q, "", nil); err != nil {
			panic(err)
		}
	}
	return c, ctx, func() {
		cancel()
		_ = c.Close()
	}
}

// work runs a worker of one queue for one type until stop is called.
func work(c *client.Client, queue rota.QueueName, typ rota.JobType, h client.Handler) (stop func()) {
	w, err := client.NewWorker(c, rota.WorkerSpec{ID: rota.WorkerID("worker-" + queue), Queues: []rota.QueueName{queue},
		Slots: 1})
	if err != nil {
		panic(err)
	}
	w.Handle(typ, h)
	return start(w)
}

// start runs a worker until stop is called.
func start(w *client.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	return func() {
		cancel()
		<-over
	}
}
