package transport

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
	"google.golang.org/protobuf/encoding/protowire"
)

var n1 = peer.NodeAddress{ID: "n1", API: "n1:6470"}

func peersOf(t *testing.T, dial func(context.Context) (net.Conn, error),
	change ...func(*PeerOptions)) *Peers {
	t.Helper()
	options := PeerOptions{
		Self: "n2", Name: "prod", ClusterID: func() rota.ClusterID { return "c1" },
		Logger: slog.New(slog.DiscardHandler),
		Dial:   func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) },
	}
	for _, f := range change {
		f(&options)
	}
	p := NewPeers(options)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// sums is the answer to a comparison of archives.
type sums struct {
	same bool
	each []peer.ArchiveRecord
}

// everyPeerCall returns each call to another node.
func everyPeerCall(p *Peers, to peer.NodeAddress) map[string]func(context.Context) (any, error) {
	return map[string]func(context.Context) (any, error){
		"forward": func(ctx context.Context) (any, error) { return p.Forward(ctx, to, []byte("abc")) },
		"beat": func(ctx context.Context) (any, error) {
			return p.Beat(ctx, to, []peer.Beat{{Worker: "w",
				Session: 1}})
		},
		"barrier": func(ctx context.Context) (any, error) { return p.Barrier(ctx, to) },
		"inspect": func(ctx context.Context) (any, error) { return p.Inspect(ctx, to, []rota.Index{0, 9}) },
		"check":   func(ctx context.Context) (any, error) { return p.CheckAt(ctx, to, 5) },
		"introduce": func(ctx context.Context) (any, error) {
			return nil, p.Introduce(ctx, to, peer.Introduction{Node: "n2"})
		},
		"transfer": func(ctx context.Context) (any, error) { return p.TransferLeadership(byLocal(ctx), to, "n3") },
		"event range": func(ctx context.Context) (any, error) {
			return p.EventRange(ctx, to, peer.EventRange{From: 4, At: 5})
		},
		"remove": func(ctx context.Context) (any, error) { return nil, p.RemovePeer(byLocal(ctx), to, "n3") },
		"archive range": func(ctx context.Context) (any, error) {
			return p.ArchiveRange(ctx, to, peer.ArchiveSpan{From: 4, To: 9}, 1000)
		},
		"archive sums": func(ctx context.Context) (any, error) {
			same, each, err := p.ArchiveSums(ctx, to, peer.ArchiveSpan{From: 4, To: 9}, []byte("sum"))
			return sums{same, each}, err
		},
		"state": func(ctx context.Context) (any, error) {
			var state bytes.Buffer
			err := p.State(ctx, to, &state)
			return state.String(), err
		},
		"archive records": func(ctx context.Context) (any, error) {
			return p.ArchiveRecords(ctx, to, []rota.JobID{"j1", "j2"})
		},
		"log": func(ctx context.Context) (any, error) { return p.Log(ctx, to, rota.LeaseID{'x'}, 7) },
		"archive list": func(ctx context.Context) (any, error) {
			return p.ListArchived(ctx, to, rota.JobFilter{Queue: "q1", State: rota.JobDead, Cursor: "done/j0",
				Limit: 5}, 3)
		},
	}
}

func TestPeers_reachTheOtherNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		p := peersOf(t, b.lis.DialContext)
		for name, want := range map[string]any{
			"forward": []byte("ok:abc"),
			"log":     peer.NodeLog{Known: true, Parts: []rota.LogPart{{At: 7, Text: []byte("x\n")}}},
			"beat":    peer.BeatAnswer{Beaten: peer.Beaten{Clock: 77, Every: 3 * time.Second}, Refused: []int32{0}},
			"barrier": rota.Index(42),
			"inspect": peer.Inspection{Status: rota.NodeStatus{Problems: []string{}}, ClusterID: "c1", WallMs: 5,
				Term: 6, LastLogIndex: 8, Cut: peer.LogCut{From: 2, To: 7, Term: 1, AtMs: 3},
				Digests: []*rota.Digest{nil, {Lo: 9}}},
			"check":     rota.NodeVerdict{ID: "n1", Index: 5, Violations: []string{}},
			"introduce": nil,
			"remove":    nil,
			"archive range": peer.ArchiveSlice{Covered: []peer.ArchiveSpan{{From: 4, To: 9}}, Floor: 3, Last: 1000,
				Records: []peer.ArchiveRecord{{Seq: 9, Data: []byte("record")}}},
			"archive sums":    sums{true, []peer.ArchiveRecord{{Seq: 9, Data: []byte("sum")}}},
			"state":           string(fakeState),
			"archive records": []peer.ArchiveRecord{{}, {Seq: 2, Data: []byte("j2")}},
			"archive list": rota.JobPage{NextCursor: "done/j0+++",
				Jobs: []rota.Job{{JobSpec: rota.JobSpec{ID: "j1", Queue: "q1"}, State: rota.JobDead, Archived: true}}},
		} {
			got, err := everyPeerCall(p, n1)[name](bounded(t))
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
			}
		}
	})
}

func TestPeers_carryRefusalsAsTheyAre(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		want := &rota.Error{Kind: rota.KindUnavailable, Op: "forward", Subject: "leader", Text: "n1 does not lead",
			RetryAfter: 3e8}
		b.node.err = want
		for name, call := range everyPeerCall(peersOf(t, b.lis.DialContext), n1) {
			if name == "log" {
				continue // a node always has an answer to it
			}
			_, err := call(bounded(t))
			var got *rota.Error
			if !errors.As(err, &got) || *got != *want {
				t.Errorf("%s: got %+v", name, err)
			}
		}
	})
}

func TestPeers_ofAnotherClusterAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		for name, c := range map[string]struct {
			change  func(*PeerOptions)
			refused bool
		}{
			"name":          {func(o *PeerOptions) { o.Name = "staging" }, true},
			"id":            {func(o *PeerOptions) { o.ClusterID = func() rota.ClusterID { return "c2" } }, true},
			"not yet known": {func(o *PeerOptions) { o.ClusterID = nil }, false},
		} {
			for call, do := range everyPeerCall(peersOf(t, b.lis.DialContext, c.change), n1) {
				_, err := do(bounded(t))
				if c.refused && rota.KindOf(err) != rota.KindDenied || !c.refused && err != nil {
					t.Errorf("%s, %s: got %v", name, call, err)
				}
			}
		}
		if n := strings.Count(b.log.String(), "does not belong here"); n != 1 {
			t.Errorf("it is logged %d times, want once a minute", n)
		}
	})
}

// TestAdmit_laterCaller checks that a node with a later binary may send additional fields, and is judged by the known
// ones.
func TestAdmit_laterCaller(t *testing.T) {
	t.Parallel()
	s := &nodeService{core: &fakeNode{name: "prod"}, log: slog.New(slog.DiscardHandler)}
	later := &rotav1.Caller{Node: "n9", ClusterName: "prod"}
	later.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 900, protowire.VarintType), 7))
	if err := s.admit(t.Context(), later); err != nil {
		t.Error(err)
	}
}

func TestAdmit_logsOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		s := &nodeService{core: &fakeNode{name: "prod"}, log: slog.New(slog.NewTextHandler(log, nil))}
		for range 180 {
			if err := s.admit(t.Context(), &rotav1.Caller{Node: "n9",
				ClusterName: "x"}); rota.KindOf(err) != rota.KindDenied {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		if n := strings.Count(log.String(), "n9"); n != 6 { // node and reason each name it
			t.Errorf("n9 is named %d times in 3 minutes", n)
		}
		if err := s.admit(t.Context(), nil); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("no caller: got %v", err)
		}
	})
}

func TestPeers_sayWhatWentWrongOnTheWay(t *testing.T) {
	t.Parallel()
	t.Run("nobody_there", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			p := peersOf(t, func(context.Context) (net.Conn, error) { return nil, errors.New("no route") })
			for name, call := range everyPeerCall(p, n1) {
				_, err := call(bounded(t))
				if rota.KindOf(err) != rota.KindUnavailable || !strings.Contains(err.Error(), "node n1 at n1:6470") {
					t.Errorf("%s: got %v", name, err)
				}
			}
		})
	})
	t.Run("no_address", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			if _, err := peersOf(t, nil).Barrier(bounded(t),
				peer.NodeAddress{ID: "n1"}); rota.KindOf(err) != rota.KindUnavailable {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("no_answer_in_time", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := setup(t)
			release := make(chan struct{})
			b.node.forwarded = func(context.Context, []byte) ([]byte, error) {
				<-release
				return nil, nil
			}
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			_, err := peersOf(t, b.lis.DialContext).Forward(ctx, n1, nil)
			if rota.KindOf(err) != rota.KindUnavailable || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			close(release)
		})
	})
	t.Run("closed", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			p := peersOf(t, nil)
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Barrier(bounded(t), n1); rota.KindOf(err) != rota.KindUnavailable {
				t.Errorf("got %v", err)
			}
		})
	})
}

func TestPeers_takeAForwardedMessageThatGrewALittle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		commands := bytes.Repeat([]byte("x"), limits.MaxMessageBytes+100_000)
		if got, err := peersOf(t, b.lis.DialContext).Forward(bounded(t), n1, commands); err != nil ||
			len(got) != len(commands)+3 {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	})
}

func TestPeers_giveEveryCallADeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		left := make(chan time.Duration, 1)
		b.node.forwarded = func(ctx context.Context, _ []byte) ([]byte, error) {
			deadline, _ := ctx.Deadline()
			left <- time.Until(deadline)
			return nil, nil
		}
		if _, err := peersOf(t, b.lis.DialContext).Forward(context.Background(), n1, nil); err != nil {
			t.Fatal(err)
		}
		if got := <-left; got <= 0 || got > peerTimeout-maxMargin {
			t.Errorf("%v is left", got)
		}
	})
}

// A node restarted at the same address is reached again at once, by the same Peers.
func TestPeers_reachARestartedNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		listeners := make(chan *bufconn.Listener, 2)
		first, second := setup(t), setup(t)
		listeners <- first.lis
		listeners <- second.lis
		p := peersOf(t, func(ctx context.Context) (net.Conn, error) {
			select {
			case lis := <-listeners:
				return lis.DialContext(ctx)
			default:
				return nil, errors.New("no answer there")
			}
		})
		if _, err := p.Barrier(bounded(t), n1); err != nil {
			t.Fatal(err)
		}
		first.server.Close()
		ctx := bounded(t)
		for {
			if _, err := p.Barrier(ctx, n1); err == nil {
				return
			} else if ctx.Err() != nil {
				t.Fatalf("not reached again: %v", err)
			}
		}
	})
}

func TestPeers_dropWhatIsUnused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewPeers(PeerOptions{Dial: func(context.Context, string) (net.Conn, error) {
			return nil,
				errors.New("no")
		}})
		defer p.Close()
		a, b := peer.NodeAddress{ID: "a", API: "a:1"}, peer.NodeAddress{ID: "b", API: "b:1"}
		_, _ = p.Barrier(t.Context(), a)
		_, _ = p.Barrier(t.Context(), b)
		<-time.After(peerIdle - time.Second)
		_, _ = p.Barrier(t.Context(), b)
		<-time.After(2 * time.Second)
		_, _ = p.Barrier(t.Context(), peer.NodeAddress{ID: "c", API: "c:1"})
		if p.peers[a] != nil || p.peers[b] == nil || len(p.peers) != 2 {
			t.Errorf("kept are %v", p.peers)
		}
	})
}
