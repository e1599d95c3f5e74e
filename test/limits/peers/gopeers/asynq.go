package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynq/x/rate"
)

// asynqPeer is Asynq with a semaphore of its module x/rate for each key.
type asynqPeer struct{}

const (
	asynqKind = "call"
	// asynqTimeout is the longest time of a task. A semaphore gives the token of a dead worker back after it.
	asynqTimeout = 2 * time.Minute
	// asynqAgain is how soon a task without a token is tried again.
	asynqAgain = 100 * time.Millisecond
)

// errNoToken is what a task returns that got no token.
var errNoToken = errors.New("no token")

func asynqRedis() asynq.RedisClientOpt { return asynq.RedisClientOpt{Addr: os.Getenv("LIMITS_ADDR")} }

func (asynqPeer) work(ctx context.Context) error {
	var mu sync.Mutex
	semaphores := make(map[string]*rate.Semaphore)
	of := func(key string) *rate.Semaphore {
		mu.Lock()
		defer mu.Unlock()
		if semaphores[key] == nil {
			semaphores[key] = rate.NewSemaphore(asynqRedis(), key, keyLimits().Concurrency)
		}
		return semaphores[key]
	}
	server := asynq.NewServer(asynqRedis(), asynq.Config{Concurrency: slots, DelayedTaskCheckInterval: asynqAgain,
		IsFailure:      func(err error) bool { return !errors.Is(err, errNoToken) },
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return asynqAgain },
		LogLevel:       asynq.ErrorLevel})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var j job
		if err := json.Unmarshal(t.Payload(), &j); err != nil {
			return err
		}
		got, err := of(j.Key).Acquire(ctx)
		if err != nil {
			return err
		}
		if !got {
			return errNoToken
		}
		_, err = call(ctx, j)
		return errors.Join(err, of(j.Key).Release(context.WithoutCancel(ctx)))
	}))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	server.Shutdown()
	return nil
}

func (asynqPeer) submitter(context.Context) (func(context.Context, job) error, error) {
	client := asynq.NewClient(asynqRedis())
	return func(ctx context.Context, j job) error {
		payload, err := json.Marshal(j)
		if err != nil {
			return err
		}
		_, err = client.EnqueueContext(ctx, asynq.NewTask(asynqKind, payload), asynq.TaskID(j.ID),
			asynq.Timeout(asynqTimeout), asynq.MaxRetry(20), asynq.Retention(time.Hour))
		if errors.Is(err, asynq.ErrTaskIDConflict) {
			return nil
		}
		return err
	}, nil
}
