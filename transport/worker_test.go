package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// secret16 is the shortest secret that is accepted.
var secret16 = []byte("0123456789abcdef")

func helloOf(id string) *rotav1.WorkRequest {
	return &rotav1.WorkRequest{Message: &rotav1.WorkRequest_Hello{Hello: &rotav1.Hello{
		Worker: words.WorkerSpecToWire(&rota.WorkerSpec{ID: rota.WorkerID(id), Queues: []rota.QueueName{"q"},
			Slots: 1}),
		Secret: secret16,
	}}}
}

func commandsOf(sequence uint64, commands ...*rotav1.LeaseCommand) *rotav1.WorkRequest {
	return &rotav1.WorkRequest{Message: &rotav1.WorkRequest_Commands{
		Commands: &rotav1.LeaseCommands{Sequence: sequence, Commands: commands}}}
}

func beatOf(sequence uint64) *rotav1.WorkRequest {
	return &rotav1.WorkRequest{Message: &rotav1.WorkRequest_Beat{Beat: &rotav1.Beat{Sequence: sequence}}}
}

func byeOf() *rotav1.WorkRequest {
	return &rotav1.WorkRequest{Message: &rotav1.WorkRequest_Bye{Bye: &rotav1.Bye{}}}
}

func renew(ordinal int32) *rotav1.LeaseCommand {
	return words.LeaseCommandToWire(&peer.LeaseCommand{Verb: rota.VerbRenew, Lease: rota.LeaseID{1},
		Ordinal: ordinal})
}

// open connects a worker and reads its welcome.
func open(t *testing.T, b *bundle, session *fakeSession) rotav1.Workers_WorkClient {
	t.Helper()
	b.core.open = func(context.Context, rota.WorkerSpec, []byte, bool) (WorkerSession,
		error) {
		return session, nil
	}
	ctx, cancel := context.WithCancel(bounded(t))
	t.Cleanup(cancel)
	stream, err := b.workers.Work(ctx)
	if err != nil {
		t.Fatal(err)
	}
	say(t, stream, helloOf("w1"))
	welcome := hear(t, stream).GetWelcome()
	if welcome.GetSession() != 7 || welcome.GetNode() != "n1" || welcome.GetClusterId() != "c1" {
		t.Fatalf("welcome is %v", welcome)
	}
	return stream
}

func say(t *testing.T, stream rotav1.Workers_WorkClient, message *rotav1.WorkRequest) {
	t.Helper()
	if err := stream.Send(message); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, stream rotav1.Workers_WorkClient) *rotav1.WorkResponse {
	t.Helper()
	message, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// endOf reads to the end of the stream, and returns the error.
func endOf(stream rotav1.Workers_WorkClient) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

func TestWork_carriesNotices(t *testing.T) {
	t.Parallel()
	b, session := setup(t), newSession()
	stream := open(t, b, session)
	a := rota.Assignment{Lease: rota.Lease{ID: rota.LeaseID{1}, Job: "j1"}, Spec: rota.JobSpec{ID: "j1"},
		LeaseFor: 9 * time.Millisecond}
	session.notices <- []peer.Notice{{Assigned: &a}, {Ended: &peer.LeaseEnd{Job: "j2"}}, {Draining: true}}
	got := hear(t, stream).GetNotices()
	if len(got.GetAssigned()) != 1 || got.GetAssigned()[0].GetLease().GetJob() != "j1" ||
		got.GetEnded()[0].GetJob() != "j2" || !got.GetDraining() {
		t.Errorf("got %v", got)
	}
	session.ended <- rota.Refusef(rota.KindStale, "session", "session 7 is no longer live")
	if err := endOf(stream); kindOf(err) != rota.KindStale {
		t.Errorf("got %v", err)
	}
	<-session.closed
}

func TestWork_answersBatchesBySequence(t *testing.T) {
	t.Parallel()
	b, session := setup(t), newSession()
	first := make(chan struct{})
	session.do = func(_ context.Context, commands []peer.LeaseCommand) ([]peer.LeaseAnswer, error) {
		switch commands[0].Ordinal {
		case 1: // answered after the second
			<-first
		case 2:
			defer close(first)
		case 3:
			return nil, &rota.Error{Kind: rota.KindUnavailable, Text: "no leader", RetryAfter: 1e9}
		}
		out := make([]peer.LeaseAnswer, len(commands))
		for i := range commands {
			out[i] = peer.LeaseAnswer{Renewals: commands[i].Ordinal, Deadline: 99}
		}
		return out, nil
	}
	stream := open(t, b, session)
	for i := range int32(3) {
		say(t, stream, commandsOf(uint64(i)+1, renew(i+1)))
	}
	answers := map[uint64]*rotav1.LeaseAnswers{}
	for range 3 {
		got := hear(t, stream).GetAnswers()
		answers[got.GetSequence()] = got
	}
	for sequence := range uint64(2) {
		if got := answers[sequence+1].GetAnswers(); len(got) != 1 || got[0].GetRenewals() != int32(sequence)+1 {
			t.Errorf("sequence %d: got %v", sequence+1, got)
		}
	}
	if e := words.RefusalFromWire(answers[3].GetRefusal()); e == nil || e.Kind != rota.KindUnavailable ||
		e.RetryAfter != 1e9 {
		t.Errorf("the refused batch: got %v", answers[3])
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := endOf(stream); err != io.EOF {
		t.Errorf("the end: got %v", err)
	}
	<-session.closed
}

func TestWork_refusesCommandsOneByOne(t *testing.T) {
	t.Parallel()
	b, session := setup(t), newSession()
	var seen []peer.LeaseCommand
	session.do = func(_ context.Context, commands []peer.LeaseCommand) ([]peer.LeaseAnswer, error) {
		seen = commands
		return make([]peer.LeaseAnswer, len(commands)), nil
	}
	stream := open(t, b, session)
	of := func(change func(*rotav1.LeaseCommand)) *rotav1.LeaseCommand {
		c := renew(1)
		change(c)
		return c
	}
	say(t, stream, commandsOf(1,
		of(func(c *rotav1.LeaseCommand) { c.Verb = rotav1.LeaseVerb_LEASE_VERB_UNSPECIFIED }),
		of(func(c *rotav1.LeaseCommand) { c.LeaseId = nil }),
		of(func(c *rotav1.LeaseCommand) { c.LeaseId = []byte("short") }),
		of(func(c *rotav1.LeaseCommand) { c.Job = "no id" }),
		of(func(c *rotav1.LeaseCommand) { c.Output = make([]byte, rota.MaxPayloadBytes+1) }),
		of(func(c *rotav1.LeaseCommand) { c.OutputDigest = []byte("short") }),
		of(func(c *rotav1.LeaseCommand) { c.Progress = 101 }),
		of(func(c *rotav1.LeaseCommand) { c.Ordinal = -1 }),
		of(func(c *rotav1.LeaseCommand) { c.Text = strings.Repeat("é", limits.MaxErrorBytes) + "end" }),
		of(func(c *rotav1.LeaseCommand) {
			c.Verb, c.Text = rotav1.LeaseVerb_LEASE_VERB_PROGRESS, "x"+strings.Repeat("é", limits.MaxNoteBytes)
		}),
		of(func(c *rotav1.LeaseCommand) { c.Verb, c.Job = rotav1.LeaseVerb_LEASE_VERB_ACK, "wf/map 7" }),
		of(func(c *rotav1.LeaseCommand) { c.Verb, c.Job = rotav1.LeaseVerb_LEASE_VERB_ACK, "wf/map-7/é" }),
	))
	got := hear(t, stream).GetAnswers().GetAnswers()
	for i, answer := range got {
		if want := i < 8 || i == 10; (answer.GetRefusal().GetKind() == "INVALID") != want {
			t.Errorf("command %d: got %v", i, answer)
		}
	}
	if len(got) != 12 || len(seen) != 3 {
		t.Fatalf("%d answers, the core saw %d commands", len(got), len(seen))
	}
	if c := seen[2]; c.Verb != rota.VerbAck || c.Job != "wf/map-7/é" { // a workflow's node
		t.Errorf("the core saw %+v", c)
	}
	if text := seen[0].Text; len(text) > limits.MaxErrorBytes || !strings.HasSuffix(text, "éend") ||
		!strings.HasPrefix(text, "é") {
		t.Errorf("the error's text has %d bytes", len(text))
	}
	if text := seen[1].Text; len(text) > limits.MaxNoteBytes || !strings.HasPrefix(text, "xé") ||
		!strings.HasSuffix(text, "é") {
		t.Errorf("the note's text has %d bytes: %q", len(text), text)
	}
	for _, n := range []int{0, limits.MaxBatchJobs + 1} {
		many := make([]*rotav1.LeaseCommand, n)
		for i := range many {
			many[i] = renew(1)
		}
		say(t, stream, commandsOf(5, many...))
		if answers := hear(t, stream).GetAnswers(); answers.GetRefusal().GetKind() != "INVALID" ||
			answers.GetSequence() != 5 {
			t.Errorf("%d commands: got %v", n, answers)
		}
	}
	say(t, stream, helloOf("w2"))
	if err := endOf(stream); kindOf(err) != rota.KindInvalid {
		t.Errorf("a second hello: got %v", err)
	}
}

func TestWork_answersTheNewestBeat(t *testing.T) {
	t.Parallel()
	b, session := setup(t), newSession()
	session.graced.Store(true)
	began, clocks := make(chan struct{}), make(chan rota.Clock)
	session.beat = func(ctx context.Context) (rota.Clock, error) {
		began <- struct{}{}
		clock := <-clocks
		if clock == 0 {
			return 0, rota.Refusef(rota.KindUnavailable, "", "no leader")
		}
		return clock, nil
	}
	stream := open(t, b, session)
	// It must arrive at once, before the leader's answer (SPEC §16.7).
	heard := func(sequence uint64) {
		t.Helper()
		if got := hear(t, stream).GetHeard(); got.GetSequence() != sequence {
			t.Errorf("heard %v, want beat %d", got, sequence)
		}
	}
	say(t, stream, beatOf(1))
	<-began
	heard(1)
	for sequence := range uint64(3) {
		say(t, stream, beatOf(sequence+2))
		heard(sequence + 2)
	}
	// The renewal answered here was read after the beats, because the stream is in order.
	say(t, stream, commandsOf(1, renew(1)))
	if hear(t, stream).GetAnswers().GetSequence() != 1 {
		t.Error("a batch waits for beats")
	}
	clocks <- 100
	if got := hear(t, stream).GetBeat(); got.GetSequence() != 1 || got.GetClockMs() != 100 {
		t.Errorf("got %v", got)
	}
	<-began
	clocks <- 0 // not answered
	say(t, stream, beatOf(5))
	<-began
	heard(5)
	clocks <- 200
	if got := hear(t, stream).GetBeat(); got.GetSequence() != 5 || got.GetClockMs() != 200 {
		t.Errorf("got %v", got)
	}
}

// TestWork_saysThatABeatCame checks that a worker without a lease with a grace period receives only the answer to a
// beat. The first such lease also notifies it of the newest beat, which may have no answer yet.
func TestWork_saysThatABeatCame(t *testing.T) {
	t.Parallel()
	b, session := setup(t), newSession()
	clocks := make(chan rota.Clock, 3)
	session.beat = func(context.Context) (rota.Clock, error) { return <-clocks, nil }
	stream := open(t, b, session)
	for sequence := range uint64(3) {
		clocks <- 100
		say(t, stream, beatOf(sequence+1))
		if got := hear(t, stream).GetBeat(); got.GetSequence() != sequence+1 {
			t.Errorf("got %v", got)
		}
	}
	say(t, stream, beatOf(4))
	say(t, stream, commandsOf(1, renew(1))) // read after the beat
	if got := hear(t, stream).GetAnswers(); got.GetSequence() != 1 {
		t.Errorf("got %v", got)
	}
	session.graced.Store(true)
	session.notices <- []peer.Notice{{Assigned: &rota.Assignment{}}}
	if got := hear(t, stream).GetNotices(); len(got.GetAssigned()) != 1 {
		t.Errorf("got %v", got)
	}
	if got := hear(t, stream).GetHeard(); got.GetSequence() != 4 {
		t.Errorf("got %v", got)
	}
	say(t, stream, beatOf(5))
	if got := hear(t, stream).GetHeard(); got.GetSequence() != 5 {
		t.Errorf("got %v", got)
	}
	close(clocks)
}

func TestWork_endsWithAStaleBeat(t *testing.T) {
	t.Parallel()
	b, session := setup(t), newSession()
	session.beat = func(context.Context) (rota.Clock, error) {
		return 0, rota.Refusef(rota.KindStale, "session",
			"over")
	}
	stream := open(t, b, session)
	say(t, stream, beatOf(1))
	if err := endOf(stream); kindOf(err) != rota.KindStale {
		t.Errorf("got %v", err)
	}
}

func TestWork_letsAWorkerGo(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]*rota.Error{
		"cleanly": nil, "refused": rota.Refusef(rota.KindConflict, "leases", "worker w1 has 1 open lease"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, session := setup(t), newSession()
			session.byeErr = errOrNil(want)
			stream := open(t, b, session)
			say(t, stream, commandsOf(1, renew(1)))
			say(t, stream, byeOf())
			if hear(t, stream).GetAnswers().GetSequence() != 1 {
				t.Error("what came before the bye is not answered")
			}
			err := endOf(stream)
			if want == nil && err != io.EOF || want != nil && kindOf(err) != want.Kind {
				t.Errorf("got %v", err)
			}
			<-session.byes
			<-session.closed
		})
	}
}

func TestWork_isToldToGoElsewhere(t *testing.T) {
	t.Parallel()
	b, session := setup(t), newSession()
	began, release := make(chan struct{}), make(chan struct{})
	session.do = func(_ context.Context, commands []peer.LeaseCommand) ([]peer.LeaseAnswer, error) {
		close(began)
		<-release
		return make([]peer.LeaseAnswer, len(commands)), nil
	}
	stream := open(t, b, session)
	say(t, stream, commandsOf(1, renew(1)))
	<-began
	drained := make(chan error, 1)
	go func() { drained <- b.server.Drain(context.WithoutCancel(t.Context())) }()
	<-b.server.draining.Done()
	close(release)
	if hear(t, stream).GetAnswers().GetSequence() != 1 {
		t.Error("requests in flight are not answered")
	}
	if err := endOf(stream); kindOf(err) != rota.KindUnavailable || !strings.Contains(err.Error(), "another node") {
		t.Errorf("got %v", err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	<-session.closed
}

func TestWork_survivesAPanicOfTheCore(t *testing.T) {
	t.Parallel()
	b, session := setup(t), newSession()
	session.do = func(context.Context, []peer.LeaseCommand) ([]peer.LeaseAnswer, error) { panic("kaboom-3") }
	stream := open(t, b, session)
	say(t, stream, commandsOf(1, renew(1)))
	if err := endOf(stream); kindOf(err) != rota.KindInternal || !strings.Contains(b.log.String(), "kaboom-3") {
		t.Errorf("got %v", err)
	}
	<-session.closed
}

func TestWork_endsWhenTheWorkerVanishes(t *testing.T) {
	t.Parallel()
	b, session := setup(t), newSession()
	began, ended := make(chan struct{}), make(chan error, 1)
	session.do = func(ctx context.Context, _ []peer.LeaseCommand) ([]peer.LeaseAnswer, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}
	stream := open(t, b, session)
	say(t, stream, commandsOf(1, renew(1)))
	<-began
	_ = b.conn.Close()
	if err := endOf(stream); err == nil {
		t.Error("the stream lives on")
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the batch: got %v", err)
	}
	<-session.closed
}

func TestNotices_byBytesInOrder(t *testing.T) {
	t.Parallel()
	var notices []peer.Notice
	for i := range 40 {
		job := rota.JobID(fmt.Sprintf("j%02d", i))
		a := &rota.Assignment{Lease: rota.Lease{Job: job}, Spec: rota.JobSpec{Payload: make([]byte,
			rota.MaxPayloadBytes)}}
		notices = append(notices, peer.Notice{Assigned: a}, peer.Notice{Ended: &peer.LeaseEnd{Job: job}})
	}
	notices = append(notices, peer.Notice{Draining: true})
	messages := words.WriteNotices(notices, noticesBytes)
	begun, ended := map[string]bool{}, 0
	var m *rotav1.Notices
	for _, message := range messages {
		b, err := words.Codec().Marshal(message)
		if size := b.Len(); err != nil || size > limits.MaxMessageBytes || size != message.Size() {
			t.Errorf("a message has %d bytes (%v)", size, err)
		}
		var envelope rotav1.WorkResponse
		if err := proto.Unmarshal(b.Materialize(), &envelope); err != nil {
			t.Fatal(err)
		}
		m = envelope.GetNotices()
		for _, a := range m.GetAssigned() {
			begun[a.GetLease().GetJob()] = true
		}
		for _, e := range m.GetEnded() {
			if ended++; !begun[e.GetJob()] {
				t.Errorf("%s ends before it begins", e.GetJob())
			}
		}
	}
	if len(messages) != 14 || ended != 40 || len(begun) != 40 || !m.GetDraining() {
		t.Errorf("%d messages, %d begun, %d ended", len(messages), len(begun), ended)
	}
	if words.WriteNotices(nil, noticesBytes) != nil {
		t.Error("nothing becomes a message")
	}
}

// TestWork_saysThatItsCredentialIsGone checks a revoked credential, which ends its worker's session. The session's end
// reaches the stream first. The worker must read that its credential is no longer valid, not that another worker took
// over its id.
func TestWork_saysThatItsCredentialIsGone(t *testing.T) {
	t.Parallel()
	b, session := setup(t), newSession()
	before, after := &rightsTable{}, &rightsTable{}
	before.give(rota.Anonymous, rota.RightWork)
	b.core.setTable(before)
	stream := open(t, b, session)
	b.core.setTable(after)
	session.ended <- rota.Refusef(rota.KindStale, "session", "session 7 is over: it was retired or taken over")
	if err := endOf(stream); kindOf(err) != rota.KindStale || !strings.Contains(err.Error(), "without a credential") {
		t.Errorf("got %v", err)
	}
	<-session.closed
}
