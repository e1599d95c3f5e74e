// Command main submits, works and completes a job by the client that oapi-codegen generated: URL QUEUE.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"compat/gen"
)

func main() {
	url, queue := os.Args[1], os.Args[2]
	ctx := context.Background()
	c, err := gen.NewClientWithResponses(url)
	check(err)
	kind, secret := "t", "0123456789abcdef"
	submitted, err := c.SubmitJobWithResponse(ctx, queue, gen.JobSpec{Queue: &queue, Type: &kind, Payload: "hello"})
	check(err)
	if submitted.JSON201 == nil {
		log.Fatal("not submitted: ", submitted.Status())
	}
	read, err := c.GetJobWithResponse(ctx, queue, nil)
	check(err)
	if read.JSON200 == nil || read.JSON200.State != gen.JobStateQUEUED {
		log.Fatal("not queued: ", read.Status())
	}
	slots, wait, queues := int32(1), int64(8000), []string{queue}
	got, err := c.AcquireLeasesWithResponse(ctx, queue, &gen.AcquireLeasesParams{RotaWorkerSecret: &secret},
		gen.Acquire{Worker: &gen.WorkerSpec{Queues: &queues, Slots: &slots}, WaitMs: &wait})
	check(err)
	lease := (*got.JSON200.Leases)[0]
	done, err := c.CompleteLeaseWithResponse(ctx, queue, lease.Lease, &gen.CompleteLeaseParams{RotaWorkerSecret: &secret},
		gen.LeaseCompletion{Token: &lease.Token, Job: lease.Job.Id, Output: "done"})
	check(err)
	if done.JSON200 == nil {
		log.Fatal("not completed: ", done.Status())
	}
	none, err := c.GetJobWithResponse(ctx, queue+"-none", nil)
	check(err)
	fmt.Println("problem", none.ApplicationproblemJSON4XX.Kind)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
