package client_test

import (
	"context"
	"errors"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

type (
	photo struct{}
	thumb struct{}
	mail  struct{}
)

var (
	resizePhoto = client.Define[photo, thumb]("resize", client.Queue("images"), client.MaxRuntime(2*time.Minute))
	sendMail    = client.Define[mail, struct{}]("mail")
)

// The forms below are those that the client is designed for, in their order. They only have to compile: DESIGN.md has
// the reasons for them.
var _ = func(ctx context.Context, addrs []string, secret string, p photo, m mail, noon time.Time) (err error) {
	c, err := client.Dial(addrs, client.WithToken(secret))
	if err != nil {
		c, err = client.DialEnv()
	}
	if err != nil {
		return err
	}
	h, err := resizePhoto.Submit(ctx, c, p, client.ID("photo-4711"), client.Key("album", "7"),
		client.Unique(client.ByArgs, time.Hour), client.At(noon), client.Labels{"team": "web"}, client.Retry(5))
	if err != nil {
		return err
	}
	var small thumb
	small, err = h.Wait(ctx)
	if err != nil {
		return err
	}
	first, err := resizePhoto.Job(p)
	if err != nil {
		return err
	}
	second, err := sendMail.Job(m)
	if err != nil {
		return err
	}
	outcomes, err := c.Submit(ctx, first, second)
	if err != nil {
		return err
	}
	small, err = resizePhoto.Of(c, outcomes[0].ID).Wait(ctx)
	if err != nil {
		return err
	}
	for job, err := range c.Jobs(ctx, rota.JobFilter{Queue: "images", State: rota.JobDead}) {
		_, _ = job, err
	}
	var at rota.ReadAt
	if _, err = c.Job(ctx, first.ID, client.Stale(), client.Seen(&at)); err != nil {
		return err
	}
	w, err := client.NewWorker(c, rota.WorkerSpec{Queues: []rota.QueueName{"images"}, Slots: 8},
		client.Use(func(next client.Handler) client.Handler { return next }))
	if err != nil {
		return err
	}
	resizePhoto.Handle(w, func(ctx context.Context, j *client.Job, _ photo) (thumb, error) {
		client.Log(ctx).Info("resizing", "token", j.Token())
		switch ctx.Err() {
		case context.Canceled:
			return small, client.Snooze(5 * time.Minute)
		case context.DeadlineExceeded:
			return small, client.RetryAfter(time.Minute, ctx.Err())
		}
		if j.Type() == "" {
			return small, client.NoRetry(errors.New("no type"))
		}
		if j.ID() == "" {
			return small, client.Cancel(errors.New("no id"))
		}
		return small, nil
	})
	return w.Run(ctx)
}
