package snapshot

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

var update = flag.Bool("update", false, "rewrite testdata: only for a new format or a new version of zstd")

func formatOne(s *state) rota.SnapshotInfo {
	info := s.info
	info.Format = 1
	return info
}

// goldenState returns a state of several blocks, one of them with one record above BlockBytes.
func goldenState() *state {
	s := small()
	s.rows = append(s.rows, row{7, strings.Repeat("payload ", BlockBytes/8+1)}, row{2, "last"})
	return newState(s.rows...)
}

func TestGolden(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "format1.snap")
	s := goldenState()
	var now bytes.Buffer
	written, err := Write(&now, s)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, now.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("format 1 is read for ever", func(t *testing.T) {
		t.Parallel()
		got, info, _, err := load(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.rows, s.rows) {
			t.Fatal("other records")
		}
		want := formatOne(s)
		want.Records, want.Bytes = uint64(len(s.rows)), int64(len(golden))
		if info != want || written != want {
			t.Fatalf("read %+v\nwrote %+v\nwanted %+v", info, written, want)
		}
	})
	t.Run("format 1 is written to the byte", func(t *testing.T) {
		t.Parallel()
		if bytes.Equal(now.Bytes(), golden) {
			return
		}
		was, is := cut(t, golden), cut(t, now.Bytes())
		same := len(was) == len(is) && bytes.Equal(was[0].bytes, is[0].bytes) &&
			bytes.Equal(was[len(was)-1].bytes, is[len(is)-1].bytes)
		for i := 1; same && i < len(was)-1; i++ {
			same = bytes.Equal(plain(t, was[i]), plain(t, is[i]))
		}
		if same {
			t.Fatal("only zstd's frames differ: if its version changed, run with -update")
		}
		t.Fatal("the layout changed: it is another format, with another number and golden file")
	})
	t.Run("the byte tables are true", func(t *testing.T) {
		t.Parallel()
		checkTables(t, golden, s)
	})
}

// checkTables reads golden using only the tables of DESIGN.md.
func checkTables(t *testing.T, golden []byte, s *state) {
	le := binary.LittleEndian
	parts := cut(t, golden)
	p := parts[0].bytes
	if string(p[:8]) != "\x89ROTA\r\n\x1a" || le.Uint16(p[8:]) != 1 || le.Uint16(p[10:]) != 0 ||
		le.Uint32(p[12:]) != 61+6 ||
		p[16] != 6 || string(p[17:23]) != "blue-7" || le.Uint64(p[31:]) != 4711 || len(p) != 16+67+4 {
		t.Fatalf("preamble % x", p)
	}
	var rows []row
	var total int
	for _, block := range parts[1 : len(parts)-1] {
		raw := plain(t, block)
		if int(le.Uint32(block.bytes)) != len(raw) {
			t.Fatalf("block declares %d bytes, has %d", le.Uint32(block.bytes), len(raw))
		}
		total += len(raw)
		for len(raw) > 0 {
			size, n := binary.Uvarint(raw[1:])
			rows = append(rows, row{raw[0], string(raw[1+n : 1+n+int(size)])})
			raw = raw[1+n+int(size):]
		}
	}
	if !reflect.DeepEqual(rows, s.rows) || len(parts) != 5 {
		t.Fatalf("%d records in %d parts", len(rows), len(parts))
	}
	last := parts[4].bytes
	if le.Uint32(last) != 0 || le.Uint64(last[16:]) != uint64(len(rows)) ||
		le.Uint64(last[24:]) != uint64(total) {
		t.Fatalf("end marker % x", last)
	}
}
