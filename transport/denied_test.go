package transport

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/logs"
)

// toldDenied keeps the denied calls that a server reports.
type toldDenied struct {
	mu    sync.Mutex
	calls []logs.Denial
	kinds []rota.Kind
}

func (d *toldDenied) tell(k rota.Kind, x logs.Denial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls, d.kinds = append(d.calls, x), append(d.kinds, k)
}

// only returns the one call that was reported.
func (d *toldDenied) only(t *testing.T) (rota.Kind, logs.Denial) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.calls) != 1 {
		t.Fatalf("denied calls reported: got %d, want 1: %+v", len(d.calls), d.calls)
	}
	k, x := d.kinds[0], d.calls[0]
	d.calls, d.kinds = nil, nil
	return k, x
}

// TestDenied checks that each call refused because of its caller is reported once, with the caller, and that an unknown
// credential is not quoted.
func TestDenied(t *testing.T) {
	t.Parallel()
	var told toldDenied
	b := setup(t, func(o *Options) { o.Denied = told.tell })
	table, who, ctx := holder(rota.RightControl)
	b.core.setTable(table)
	ctx = metadata.AppendToOutgoingContext(ctx, requestHeader, "r1")
	ids := &rotav1.CancelJobsRequest{Ids: []string{"j1", "j2"}}
	want := func(kind rota.Kind, method, principal, reason string) {
		t.Helper()
		k, x := told.only(t)
		if k != kind || x.Method != method || x.Principal != principal || !strings.Contains(x.Reason, reason) ||
			x.Peer == "" || x.Request == "" {
			t.Errorf("%v %+v", k, x)
		}
		if principal == string(who) && x.Request != "r1" {
			t.Errorf("the request is %s", x.Request)
		}
	}

	if _, err := b.jobs.Get(ctx, &rotav1.GetJobRequest{Id: "j"}); kindOf(err) != rota.KindDenied {
		t.Fatal(err)
	}
	want(rota.KindDenied, "/rota.v1.Jobs/Get", string(who), "no right to read")
	if _, err := b.jobs.Cancel(bounded(t), ids); kindOf(err) != rota.KindUnauthenticated {
		t.Fatal(err)
	}
	want(rota.KindUnauthenticated, "/rota.v1.Jobs/Cancel", "anonymous", "credential")

	b.core.outcomes = func(context.Context, []rota.JobID) ([]rota.JobOutcome, error) {
		no := rota.Refusef(rota.KindDenied, "control", "not this job")
		return []rota.JobOutcome{{Err: no}, {Err: no}}, nil
	}
	if _, err := b.jobs.Cancel(ctx, ids); err != nil {
		t.Fatal(err)
	}
	want(rota.KindDenied, "/rota.v1.Jobs/Cancel", string(who), "not this job")
	b.core.outcomes = func(context.Context, []rota.JobID) ([]rota.JobOutcome, error) {
		return nil, rota.Refusef(rota.KindNotFound, "job", "there is none")
	}
	if _, err := b.jobs.Cancel(ctx, ids); kindOf(err) != rota.KindNotFound {
		t.Fatal(err)
	}

	unknown := access.CredentialOf([40]byte{9}).Secret()
	for _, shown := range []string{unknown, strings.Repeat("k", 30) + unknown, "rota_" + unknown[:20]} {
		if _, err := b.jobs.Cancel(bearing(shown), ids); kindOf(err) != rota.KindUnauthenticated {
			t.Fatal(err)
		}
		_, x := told.only(t)
		if all := fmt.Sprint(x); x.Principal != unknownCaller || strings.Contains(all, unknown[5:10]) ||
			strings.Contains(all, "kkk") {
			t.Errorf("%+v", x)
		}
	}

	const flood = 300
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() {
			for range flood / 10 {
				_, _ = b.jobs.Cancel(bearing(unknown), ids)
			}
		})
	}
	calls.Wait()
	if len(told.calls) != flood {
		t.Errorf("%d of %d denied calls are reported", len(told.calls), flood)
	}
}
