package cron

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestEmbedded_isTheReleaseOfTheGenerator holds the three generated parts together: the data, its name and its hash.
func TestEmbedded_isTheReleaseOfTheGenerator(t *testing.T) {
	sum := sha256.Sum256(embedded)
	if got := hex.EncodeToString(sum[:]); got != embeddedSHA256 {
		t.Errorf("zones.bin has SHA-256 %s, want %s as in release_gen.go: run `make tzdata`", got, embeddedSHA256)
	}
	files, err := unpack(embedded)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Pack(files)
	if err != nil {
		t.Fatal(err)
	}
	back, err := unpack(again)
	if err != nil || !maps.EqualFunc(files, back, bytes.Equal) {
		t.Errorf("zones.bin differs after repacking: %v", err)
	}
	if n := Embedded().Len(); n < 590 || Embedded().Name() != Release {
		t.Errorf("release %s has %d zones", Embedded().Name(), n)
	}
}

// TestZone_neverTheHosts shows that the host's zones are not read.
func TestZone_neverTheHosts(t *testing.T) {
	t.Setenv("ZONEINFO", t.TempDir())
	if l, err := Embedded().Zone("Europe/Berlin"); err != nil || l.String() != "Europe/Berlin" {
		t.Fatal(l, err)
	}
}

// TestEmbedded_agreesWithPython compares 40 zones over five years with Python's zoneinfo on the PyPI package tzdata.
func TestEmbedded_agreesWithPython(t *testing.T) {
	text, err := os.ReadFile("testdata/zones.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Release    string
		Start, End int64
		Zones      map[string][][2]int64
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if want.Release != Release || len(want.Zones) != 40 || want.End-want.Start != 1826*86400 {
		t.Fatalf("zones.json has %d zones of release %s over %d s, want 40 of %s over five years", len(want.Zones),
			want.Release, want.End-want.Start, Release)
	}
	for name, changes := range want.Zones {
		where, err := Embedded().Zone(name)
		if err != nil {
			t.Error(err)
			continue
		}
		next := 0
		for at := want.Start; at < want.End; at += 1800 {
			for next+1 < len(changes) && changes[next+1][0] <= at {
				next++
			}
			if _, offset := time.Unix(at, 0).In(where).Zone(); int64(offset) != changes[next][1] {
				t.Errorf("%s at %s: offset %d s, Python has %d s", name, time.Unix(at, 0).UTC(), offset,
					changes[next][1])
				break
			}
		}
	}
}

// TestNext_winterOf2026 has the zones that changed their rules in 2026.
func TestNext_winterOf2026(t *testing.T) {
	for zone, want := range map[string]string{"America/Vancouver": "16:00", "Canada/Pacific": "16:00",
		"America/Edmonton":    "15:00",
		"America/Yellowknife": "15:00", "America/Inuvik": "15:00", "America/Winnipeg": "14:00",
		"America/Havana": "13:00", "America/Rainy_River": "14:00",
		"Africa/Casablanca": "09:00", "Africa/El_Aaiun": "09:00"} {
		table, err := Parse("0 9 * * *", zone, 0, ms(t, "2026-11-28T00:00:00Z"))
		if err != nil {
			t.Fatal(err)
		}
		if d, _ := table.Next(ms(t, "2026-11-28T00:00:00Z")); shown(d) != "2026-11-28T"+want+":00Z" {
			t.Errorf("%s: 9 in the morning of 2026-11-28 is %s, want %s UTC", zone, shown(d), want)
		}
	}
}

func TestStale_afterSixMonths(t *testing.T) {
	z := Embedded()
	for days, want := range map[int64]bool{0: false, 183: false, 184: true} {
		if _, stale := z.Stale(z.Released() + rota.Date(days*86_400_000)); stale != want {
			t.Errorf("after %d days: stale is %v", days, stale)
		}
	}
}

// TestOpen_refusesDamage flips and cuts the packed form, which must never panic, and never open with a zone that is not whole.
func TestOpen_refusesDamage(t *testing.T) {
	files, err := unpack(embedded)
	if err != nil {
		t.Fatal(err)
	}
	small := map[string][]byte{"Europe/Berlin": files["Europe/Berlin"], "Berlin": files["Europe/Berlin"],
		"Asia/Tokyo": files["Asia/Tokyo"]}
	packed, err := Pack(small)
	if err != nil {
		t.Fatal(err)
	}
	if z, err := Open("x", 1, packed); err != nil || z.Len() != 3 {
		t.Fatal(z, err)
	}
	for i := range packed {
		if _, err := Open("x", 1, packed[:i]); !errors.Is(err, rota.ErrInvalid) {
			t.Fatalf("%d bytes of %d: %v", i, len(packed), err)
		}
		bad := slices.Clone(packed)
		bad[i] ^= 0x55
		if z, err := Open("x", 1, bad); err == nil && z.Len() > maxZones {
			t.Fatalf("byte %d: %d zones", i, z.Len())
		}
	}
	for name, files := range map[string]map[string][]byte{"no TZif": {"Europe/Berlin": []byte("x")},
		"cut": {"Europe/Berlin": files["Europe/Berlin"][:99]}} {
		packed, err := Pack(files)
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := Open("x", 1, packed); !errors.Is(err, rota.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, files := range map[string]map[string][]byte{"none": {},
		"long name": {strings.Repeat("z", maxZone+1): []byte("x")}, "no name": {"": []byte("x")}} {
		if _, err := Pack(files); !errors.Is(err, rota.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	noise := make([]byte, rota.MaxTZDataBytes+1)
	copy(noise, packMagic)
	if _, err := Open("x", 1, noise); !errors.Is(err, rota.ErrInvalid) {
		t.Error(err)
	}
}

// TestOpen_boundsMemory has a small piece that would decompress to 64 MiB.
func TestOpen_boundsMemory(t *testing.T) {
	if _, err := Open("x", 1, bomb(t, 64<<20)); !errors.Is(err, rota.ErrInvalid) {
		t.Error(err)
	}
}
