package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// temporalPeer is Temporal: a job is a workflow with one activity, the call, on the task queue of the job's key.
type temporalPeer struct{}

const (
	temporalQueue = "calls"
	// temporalSilence is the heartbeat timeout: how long after its last heartbeat an activity is given to another worker.
	temporalSilence = 30 * time.Second
	// temporalStop is how long a stopped worker waits for its activities.
	temporalStop = 5 * time.Second
)

// temporalRun is the workflow of a job.
func temporalRun(ctx workflow.Context, j job) (spent int, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: j.Key,
		StartToCloseTimeout: 5 * time.Minute, HeartbeatTimeout: temporalSilence})
	err = workflow.ExecuteActivity(ctx, temporalCall, j).Get(ctx, &spent)
	return spent, err
}

// temporalCall makes the call and sends heartbeats meanwhile.
func temporalCall(ctx context.Context, j job) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for tick := time.NewTicker(temporalSilence / 3); ; {
			select {
			case <-tick.C:
				activity.RecordHeartbeat(ctx)
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	}()
	return call(ctx, j)
}

func temporalClient() (client.Client, error) {
	return client.Dial(client.Options{HostPort: os.Getenv("LIMITS_ADDR"), Logger: quiet{}})
}

func (temporalPeer) work(ctx context.Context) error {
	c, err := temporalClient()
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, temporalQueue, worker.Options{DisableEagerActivities: true, LocalActivityWorkerOnly: true,
		WorkerStopTimeout: temporalStop})
	w.RegisterWorkflow(temporalRun)
	workers := []worker.Worker{w}
	for key := range strings.SplitSeq(os.Getenv("LIMITS_KEYS"), ",") {
		w := worker.New(c, key, worker.Options{DisableWorkflowWorker: true, WorkerStopTimeout: temporalStop,
			TaskQueueActivitiesPerSecond: float64(keyLimits().Rate), MaxConcurrentActivityTaskPollers: 1})
		w.RegisterActivity(temporalCall)
		workers = append(workers, w)
	}
	for _, w := range workers {
		if err := w.Start(); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	<-ctx.Done()
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(w.Stop)
	}
	all.Wait()
	return nil
}

func (temporalPeer) submitter(context.Context) (func(context.Context, job) error, error) {
	c, err := temporalClient()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, j job) error {
		_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: j.ID, TaskQueue: temporalQueue}, temporalRun, j)
		var started *serviceerror.WorkflowExecutionAlreadyStarted
		if errors.As(err, &started) {
			return nil
		}
		return err
	}, nil
}

// quiet drops the client's log.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
