package transport

import (
	"bytes"
	"context"
	"reflect"
	"testing"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

func TestWork_refusesWhoDoesNotSayWhoItIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.core.err = rota.Refusef(rota.KindConflict, "id", "worker w1 is live with another secret: use --takeover")
	short, misshapen := helloOf("w1"), helloOf("w1")
	short.GetHello().Secret = []byte("short")
	misshapen.GetHello().GetWorker().Queues = nil
	huge := func(n int) *rotav1.WorkRequest {
		hello := helloOf("w1")
		hello.GetHello().Secret = make([]byte, n)
		return hello
	}
	for name, c := range map[string]struct {
		first *rotav1.WorkRequest
		want  rota.Kind
	}{
		"a beat first":    {beatOf(1), rota.KindInvalid},
		"nothing in it":   {&rotav1.WorkRequest{}, rota.KindInvalid},
		"no id":           {helloOf(""), rota.KindInvalid},
		"no queues":       {misshapen, rota.KindInvalid},
		"a short secret":  {short, rota.KindInvalid},
		"end":             {nil, rota.KindInvalid},
		"refused by core": {helloOf("w1"), rota.KindConflict},
		"a huge message":  {huge(limits.MaxMessageBytes + 1), rota.KindInvalid},
		"an old secret that is too short": {func() *rotav1.WorkRequest {
			hello := helloOf("w1")
			hello.GetHello().OldSecret = []byte("short")
			return hello
		}(), rota.KindInvalid},
		"a giant message": {huge(maxNodeMessageBytes), rota.KindInvalid},
	} {
		stream, err := b.workers.Work(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		if c.first != nil {
			_ = stream.Send(c.first) // the end may come first
		} else if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := endOf(stream); kindOf(err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestWork_givesTheCoreWhatTheWorkerSaid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	said := make(chan rota.WorkerSpec, 1)
	b.core.open = func(_ context.Context, spec rota.WorkerSpec, secret []byte, takeover bool) (WorkerSession,
		error) {
		if !bytes.Equal(secret, secret16) || !takeover {
			t.Errorf("secret %q, takeover %v", secret, takeover)
		}
		said <- spec
		return nil, rota.Refusef(rota.KindUnavailable, "", "no leader")
	}
	stream, err := b.workers.Work(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	hello := helloOf("w9")
	hello.GetHello().Takeover, hello.GetHello().OldSecret = true, []byte("the secret before")
	hello.GetHello().Attestation = words.AttestationToWire(&rota.Attestation{Cluster: "c1", Worker: "w9", Expires: 5,
		Stake: 9, Key: rota.Hex{1}, Signature: rota.Hex{2}})
	say(t, stream, hello)
	if err := endOf(stream); kindOf(err) != rota.KindUnavailable {
		t.Errorf("got %v", err)
	}
	if spec := <-said; spec.ID != "w9" || !reflect.DeepEqual(spec.Queues, []rota.QueueName{"q"}) ||
		spec.Slots != 1 {
		t.Errorf("the core saw %+v", spec)
	}
	if a := b.core.attested; a == nil || a.Cluster != "c1" || a.Worker != "w9" || a.Expires != 5 || a.Stake != 9 ||
		len(a.Key) != 1 {
		t.Errorf("the core was shown %+v", a)
	}
	if old := b.core.link.OldSecret; string(old) != "the secret before" {
		t.Errorf("the core was shown %q as the secret before", old)
	}
}

// gRPC's own Send hangs when a worker does not read. The stream still ends, while that Send is in progress.
func TestWork_endsThoughTheWorkerTakesNothing(t *testing.T) {
	t.Parallel()
	b, session := setup(t), newSession()
	open(t, b, session)
	a := &rota.Assignment{Spec: rota.JobSpec{Payload: make([]byte, rota.MaxPayloadBytes)}}
	go func() {
		for {
			select {
			case session.notices <- []peer.Notice{{Assigned: a}}:
			case <-session.closed:
				return
			}
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	drained := make(chan error, 1)
	go func() { drained <- b.server.Drain(ctx) }()
	<-session.closed
	cancel()
	<-drained
}
