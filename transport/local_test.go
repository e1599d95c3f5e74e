package transport

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/access"
)

// TestLocal checks that on the node's socket its own account and root are local, that others are rejected by name, and
// that no caller counts as a node there.
func TestLocal(t *testing.T) {
	t.Parallel()
	for uid, may := range map[int]bool{os.Getuid(): true, 0: true, os.Getuid() + 1: false} {
		if err := strangerAt(uid, nil); (err == nil) != may || !may && rota.KindOf(err) != rota.KindDenied {
			t.Errorf("uid %d: %v", uid, err)
		}
	}
	if err := strangerAt(os.Getuid(), os.ErrInvalid); rota.KindOf(err) != rota.KindDenied {
		t.Errorf("unknown uid: %v", err)
	}
	refusal := strangerAt(os.Getuid()+1, nil)
	if _, err := (&Server{}).authenticate(&edgeInfo{local: true, stranger: refusal}, nil); err != refusal {
		t.Errorf("a stranger: %v", err)
	}
	b := setup(t)
	table, _, _ := holder()
	table.give(rota.Local, rota.RightAuth, rota.RightBackup)
	table.give(rota.Anonymous, rota.RightBackup)
	b.core.setTable(table)
	path := filepath.Join(t.TempDir(), "s")
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.server.ServeLocal(lis) }()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	made, err := rotav1.NewAuthClient(conn).Init(t.Context(),
		&rotav1.InitRequest{Id: "abcdefghijkl", Hash: make([]byte, 32), ExpiresMs: 1})
	if err != nil || made.GetRoles()[0] != access.RoleRoot {
		t.Errorf("%v, %v", made, err)
	}
	b.core.snapshot = func(_ context.Context, w io.Writer) error {
		_, err := w.Write([]byte("saved"))
		return err
	}
	for of, cluster := range map[rota.Kind]rotav1.ClusterClient{rota.KindNone: rotav1.NewClusterClient(conn),
		rota.KindDenied: b.cluster} {
		stream, err := cluster.SaveSnapshot(t.Context(), &rotav1.SaveSnapshotRequest{Read: &rotav1.Read{Stale: true}})
		if err == nil {
			_, err = stream.Recv()
		}
		if kindOf(err) != of {
			t.Errorf("a backup that no leader vouches for: got %v, want %s", err, of)
		}
	}
	if _, err := rotav1.NewNodeClient(conn).Inspect(t.Context(),
		&rotav1.InspectRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("as a node: %v", err)
	}
	if err := b.server.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("at the end: %v", err)
	}
}
