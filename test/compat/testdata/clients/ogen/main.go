// Command main submits, works and completes a job by the client that ogen generated: URL QUEUE.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/ogen-go/ogen/ogenerrors"

	"compat/gen"
)

func main() {
	url, queue := os.Args[1], os.Args[2]
	ctx := context.Background()
	c, err := gen.NewClient(url, anonymous{})
	check(err)
	secret := gen.NewOptString("0123456789abcdef")
	submitted, err := c.SubmitJob(ctx, &gen.JobSpec{Queue: gen.NewOptNilString(queue), Type: gen.NewOptNilString("t")}, gen.SubmitJobParams{ID: queue})
	check(err)
	if _, ok := submitted.(*gen.Submitted); !ok {
		log.Fatalf("not submitted: %T", submitted)
	}
	read, err := c.GetJob(ctx, gen.GetJobParams{ID: queue})
	check(err)
	if job, ok := read.(*gen.GetJobOKHeaders); !ok || job.Response.State != gen.JobStateQUEUED {
		log.Fatalf("not queued: %T", read)
	}
	asked, err := c.AcquireLeases(ctx, &gen.Acquire{WaitMs: gen.NewOptNilInt64(8000), Worker: gen.NewOptNilWorkerSpec(
		gen.WorkerSpec{Queues: gen.NewOptNilStringArray([]string{queue}), Slots: gen.NewOptNilInt32(1)})},
		gen.AcquireLeasesParams{ID: queue, RotaWorkerSecret: secret})
	check(err)
	lease := asked.(*gen.AcquiredHeaders).Response.Leases[0]
	done, err := c.CompleteLease(ctx, &gen.LeaseCompletion{Token: gen.NewOptNilString(lease.Token), Job: lease.Job.ID, Output: []byte(`"done"`)},
		gen.CompleteLeaseParams{ID: queue, Lease: lease.Lease, RotaWorkerSecret: secret})
	check(err)
	if _, ok := done.(*gen.JobOutcomeHeaders); !ok {
		log.Fatalf("not completed: %T", done)
	}
	none, err := c.GetJob(ctx, gen.GetJobParams{ID: queue + "-none"})
	check(err)
	fmt.Println("problem", none.(*gen.ProblemStatusCode).Response.Kind)
}

// anonymous has no token to give.
type anonymous struct{}

// Token implements gen.SecuritySource.
func (anonymous) Token(context.Context, gen.OperationName) (gen.Token, error) {
	return gen.Token{}, ogenerrors.ErrSkipClientSecurity
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
