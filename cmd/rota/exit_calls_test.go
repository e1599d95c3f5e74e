package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/cli"
)

// refusing is a node that refuses every call with the given kind.
func refusing(t *testing.T, kind *atomic.Uint32) (address string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, in grpc.ServerStream) error {
		return words.ToStatus(rota.Refusef(rota.Kind(kind.Load()), "id", "the id is in use"))
	}))
	go func() { _ = s.Serve(lis) }()
	t.Cleanup(s.Stop)
	return lis.Addr().String()
}

// underIDs are the commands that submit, open, start or signal something under an id that the caller
// chooses: a conflict there is a refusal, and not a failure.
var underIDs = []string{"job submit", "workflow submit", "workflow signal", "batch open", "plan start"}

// beyondRefusals are commands that continue after a refusal, or send no call to this node, with the reason.
var beyondRefusals = map[string]string{
	"auth init": "the node's socket", "auth reset": "the node's socket", "worker run": "it runs until it is stopped",
	"operator snapshot save": "it asks for a stream of bytes",
	"bench jobs":             "it counts refusals", "bench fill": "it counts refusals",
	"bench workflow":                    "it counts refusals",
	"bench trace":                       "it counts refusals",
	"worker attest":                     "the cluster's id is all that it asks for",
	"cluster status":                    "it asks each node, and shows those that answer",
	"operator raft remove-peer":         "it looks for the leader first",
	"operator raft transfer-leadership": "it looks for the leader first",
	"operator backup now":               "it looks for the leader first", "auth login": "it reads a file first",
	"operator verify": "it shows each node's answer",
	"operator debug":  "it collects what it gets",
}

// TestExitCode_ofEachCommand: each kind of refusal ends each command with the code of docs/reference/errors.md,
// whichever call was refused.
func TestExitCode_ofEachCommand(t *testing.T) {
	t.Parallel()
	flow := t.TempDir() + "/f.yaml"
	if err := os.WriteFile(flow, []byte("queue: q\nnodes:\n  - {id: a, type: t}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var kind atomic.Uint32
	addr := refusing(t, &kind)
	for k := rota.KindInvalid; k <= rota.KindUnauthenticated; k++ {
		if k == rota.KindUnavailable || k == rota.KindTimeout || k == rota.KindInternal {
			continue // the client tries again until the caller's deadline
		}
		kind.Store(uint32(k))
		for _, step := range scene {
			if beyondRefusals[step.name] != "" {
				continue
			}
			args := strings.NewReplacer("{flow}", flow, "{token}", "aaaaaaaaaaaa", "{relay}", flow, "{data}",
				t.TempDir()).Replace(step.args)
			want := cli.KindCode(k)
			if k == rota.KindConflict && slices.Contains(underIDs, step.name) && !strings.Contains(args, "--dry-run") {
				want = cli.ExitRefused
			}
			var stdout, stderr bytes.Buffer
			began := time.Now()
			code := run(slices.Concat(strings.Fields(step.name), strings.Fields(args), []string{"--timeout", "2s"}),
				[]string{"ROTA_ADDR=" + addr}, strings.NewReader(""), &stdout, &stderr)
			if code != want {
				t.Errorf("%s %s, refused with %s: exit code %d, want %d after %s: %s", step.name, args, k, code, want,
					time.Since(began), stderr.String())
			}
			if !strings.Contains(stderr.String(), "the id is in use") {
				t.Errorf("%s %s, refused with %s, does not explain why: %q", step.name, args, k,
					fmt.Sprint(stdout.String(), stderr.String()))
			}
		}
	}
}
