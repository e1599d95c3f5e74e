package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// backupOp reports a backup whose bytes are its name.
func backupOp(index rota.Index, name string) *fsmpb.Op {
	sum := sha256.Sum256([]byte(name))
	return &fsmpb.Op{Op: &fsmpb.Op_BackupStored{BackupStored: &fsmpb.BackupStored{Index: uint64(index), Name: name,
		Sha256: sum[:], Bytes: 9}}}
}

// readSnapshotOp reads a node's state.
func readSnapshotOp(node rota.NodeID, index rota.Index) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_ReadSnapshot{ReadSnapshot: &fsmpb.ReadSnapshot{Node: string(node),
		Index: uint64(index)}}}
}

// TestReadSnapshot: reading a node's state emits an event that names the reader, the node and the
// index, and changes no row. It is refused without the right, without an actor, and for an index that
// does not exist yet.
func TestReadSnapshot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(tokenOp(tokenWish("b", access.RoleRoot)))
	b.ok(tokenOp(tokenWish("o", access.RoleOperator)))
	rows := b.Freeze().Rows()
	for _, actor := range []rota.Principal{rota.Local, actorNamed("b")} {
		read := b.At
		a := b.entry(by(actor, readSnapshotOp("n2", read)))
		if err := entry.OutcomeError(a.Outcomes[0]); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"node":"n2","index":%d}`, read)
		if len(a.Events) != 1 || a.Events[0].Kind != rota.EventSnapshotRead || a.Events[0].Actor != actor ||
			a.Events[0].Payload != want {
			t.Errorf("the events are %+v", a.Events)
		}
	}
	if now := b.Freeze().Rows(); now != rows {
		t.Errorf("%d rows became %d", rows, now)
	}
	b.refuses(rota.KindDenied, "backup", by(actorNamed("o"), readSnapshotOp("n2", b.At)))
	b.refuses(rota.KindInvalid, "actor", readSnapshotOp("n2", b.At))
	b.refuses(rota.KindInvalid, "node", by(rota.Local, readSnapshotOp("", b.At)))
	b.refuses(rota.KindInvalid, "index", by(rota.Local, readSnapshotOp("n2", 0)))
	b.refuses(rota.KindInvalid, "index", by(rota.Local, readSnapshotOp("n2", b.At+1)))
	b.refuses(rota.KindInvalid, "index", by(rota.Local, readSnapshotOp("n2", math.MaxUint64)))
	b.sound()
}

func TestBackupStored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, _, ok := LastBackup(&b.View); ok {
		t.Error("a new cluster has a backup")
	}
	tells := func(what string, op *fsmpb.Op, want string, wantWhole bool) {
		t.Helper()
		a := b.entry(op)
		sum := sha256.Sum256([]byte(want))
		got, whole, ok := LastBackup(&b.View)
		if !ok || got.Name != want || !bytes.Equal(got.SHA256, sum[:]) || got.Bytes != 9 || whole != wantWhole ||
			got.Date == 0 {
			t.Errorf("%s: %+v, whole %v, %v", what, got, whole, ok)
		}
		if a.Outcomes[0].GetExisted() != (len(a.Events) == 0) {
			t.Errorf("%s: %v and %v do not match", what, a.Outcomes[0], a.Events)
		}
		for _, e := range a.Events {
			if e.Kind != rota.EventBackupStored || !strings.Contains(e.Payload, hex.EncodeToString(sum[:])) ||
				!strings.Contains(e.Payload, want) {
				t.Errorf("%s: got event %+v", what, e)
			}
		}
		b.sound()
	}
	tells("the state before", backupOp(b.At, "first"), "first", true)
	if b.pass(1000); b.At == 0 {
		t.Fatal("no entry")
	}
	if _, whole, _ := LastBackup(&b.View); whole {
		t.Error("it holds what came after it")
	}
	at := b.At
	b.submit("j")
	tells("a job came in between", backupOp(at, "second"), "second", false)
	tells("the same again", backupOp(at, "second"), "second", false)
	tells("an older one, told late", backupOp(at-1, "older"), "second", false)
	tells("another file of the same index", backupOp(at, "third"), "third", false)
	b.entry(backupOp(b.At, "fourth"), submitOp(jobSpec("beside")))
	if got, whole, _ := LastBackup(&b.View); got.Name != "fourth" || whole {
		t.Errorf("%+v, whole %v: a job came in its entry", got, whole)
	}
	b.restored()
}

func TestBackupStored_refuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	changed := func(change func(*fsmpb.BackupStored)) *fsmpb.Op {
		op := backupOp(b.At, "n")
		change(op.GetBackupStored())
		return op
	}
	b.refuses(rota.KindInvalid, "index", changed(func(o *fsmpb.BackupStored) { o.Index = 0 }))
	b.refuses(rota.KindInvalid, "index", changed(func(o *fsmpb.BackupStored) { o.Index = uint64(b.At) + 1 }))
	b.refuses(rota.KindInvalid, "index", changed(func(o *fsmpb.BackupStored) { o.Index = math.MaxUint64 }))
	b.refuses(rota.KindInvalid, "name", changed(func(o *fsmpb.BackupStored) { o.Name = "" }))
	b.refuses(rota.KindInvalid, "name", changed(func(o *fsmpb.BackupStored) { o.Name = "é" }))
	b.refuses(rota.KindInvalid, "name", changed(func(o *fsmpb.BackupStored) {
		o.Name = strings.Repeat("n", limits.MaxBackupNameBytes+1)
	}))
	b.refuses(rota.KindInvalid, "sha256", changed(func(o *fsmpb.BackupStored) { o.Sha256 = o.Sha256[:31] }))
	b.refuses(rota.KindInvalid, "bytes", changed(func(o *fsmpb.BackupStored) { o.Bytes = 0 }))
	b.refuses(rota.KindInvalid, "bytes", changed(func(o *fsmpb.BackupStored) { o.Bytes = 1 << 63 }))
	if got, _, ok := LastBackup(&b.View); ok {
		t.Errorf("%+v is stored", got)
	}
}

// TestBackupStored_reincarnate checks that a restored cluster has no backup: the one that it was restored from belongs
// to another cluster.
func TestBackupStored_reincarnate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(backupOp(b.At, "first"))
	m := b.restored()
	if err := m.Reincarnate(Rebirth{Cluster: "second"}); err != nil {
		t.Fatal(err)
	}
	if got, _, ok := LastBackup(&m.View); ok {
		t.Errorf("%+v", got)
	}
}
