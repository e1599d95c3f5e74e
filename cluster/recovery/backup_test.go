package recovery

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/snapshot"
)

// A restored backup keeps no access token valid that may have been revoked since, unless requested.
func TestRestoreBackup_tokens(t *testing.T) {
	t.Parallel()
	const id = "aaaaaaaaaaaa"
	m := fsm.New()
	for i, op := range []*fsmpb.Op{
		{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 1, Node: "n1", Random: make([]byte, 32),
			ClusterId: "c-1", StartMs: 1_800_000_000_000}}},
		{Actor: string(rota.Local), Via: "n1/sock", Request: "r",
			Op: &fsmpb.Op_CreateToken{CreateToken: &fsmpb.CreateToken{Id: id,
				Hash: make([]byte, 32), Roles: []string{"root"}, ExpiresMs: 1_800_000_000_000 + 3_600_000}}},
	} {
		data, err := entry.Seal(&fsmpb.Entry{Term: 1, NowMs: int64(i), Ops: []*fsmpb.Op{op}}, entry.FirstRules)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := m.Apply(rota.Index(i+1), 1, data)
		if err != nil {
			t.Fatal(err)
		}
		if e := entry.OutcomeError(applied.Outcomes[0]); e != nil {
			t.Fatal(e)
		}
	}
	file := filepath.Join(t.TempDir(), "backup")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Write(f, m.Freeze()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, keep := range []bool{false, true} {
		data := t.TempDir()
		if _, err := RestoreBackup(RestoreOptions{Backup: snapshot.At(file), Data: data, Node: "r1", Cluster: "test",
			Raft: "127.0.0.1:1", KeepTokens: keep}); err != nil {
			t.Fatal(err)
		}
		state, err := raftstore.OpenStoppedState(data)
		if err != nil {
			t.Fatal(err)
		}
		restored, err := loadState(snapshot.At(state.File))
		if err != nil {
			t.Fatal(err)
		}
		token, known := restored.View.Access().Token(id)
		if !known || token.Revoked.IsZero() != keep {
			t.Errorf("kept %v: known %v, revoked %v", keep, known, token.Revoked)
		}
	}
}
