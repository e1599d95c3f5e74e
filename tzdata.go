package rota

import (
	"fmt"
	"time"
)

// MaxTZDataBytes limits the packed time zones of one release, which are one operation of a log entry: those of 2026f
// have 49 KB, or 130 KB if a release lists every year.
const MaxTZDataBytes = 256 << 10

// TZData describes a release of the IANA time zone database that was installed on the whole cluster.
type TZData struct {
	// Release is a name such as 2026f.
	Release string `json:"release"`
	// Released is the date of the release.
	Released Date `json:"released_ms"`
	// SHA256 is the hash of the packed zones, 32 bytes.
	SHA256 Hex `json:"sha256"`
	// Bytes is the size of the packed zones.
	Bytes int64 `json:"bytes"`
	// Index is the log entry from which the release determines dates; Installed is the date of that entry.
	Index     Index     `json:"index"`
	Installed Date      `json:"installed_ms"`
	By        Principal `json:"by"`
}

// Name returns what identifies the zones in the log: the release and the first 8 bytes of the hash, such as
// 2026f-0a10eec6e13ef16b.
func (t *TZData) Name() string {
	return fmt.Sprintf("%s-%x", t.Release, []byte(t.SHA256[:min(len(t.SHA256), 8)]))
}

// validTZRelease reports whether a text is the name of a release: a year from 1990 to 2999 and one to three small
// letters, such as 2026f.
func validTZRelease(s string) bool {
	if len(s) < 5 || len(s) > 7 || s < "1990" || s >= "3000" {
		return false
	}
	for i, c := range []byte(s) {
		if i < 4 && (c < '0' || c > '9') || i >= 4 && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// ScheduleDates are dates of a schedule, with an identifier of the time zones used to calculate them: a release such as
// 2026f, followed by a part of its hash if it was installed on the cluster.
type ScheduleDates struct {
	Dates  []Date `json:"dates"`
	TZData string `json:"tzdata"`
}

// TZInstall is a release of the time zone database to install.
type TZInstall struct {
	// Release is a name such as 2026f; Released is its date, not later than today.
	Release  string `json:"release"`
	Released Date   `json:"released_ms"`
	// Data holds the packed zones, as produced by `rota tzdata install`: 1 to 262,144 bytes.
	Data Blob `json:"data"`
	// Older allows a release that is older than the one in force.
	Older bool `json:"older,omitempty"`
}

// CheckShape makes the checks that do not need to open the data.
func (t *TZInstall) CheckShape() error {
	switch {
	case !validTZRelease(t.Release):
		return Refusef(KindInvalid, "release", "release: got %.20q, want a year and a letter such as 2026f", t.Release)
	case t.Released <= 0 || t.Released > DateOf(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)):
		return Refusef(KindInvalid, "released", "released: got %s, want the date of the release", t.Released)
	case len(t.Data) == 0 || len(t.Data) > MaxTZDataBytes:
		return Refusef(KindInvalid, "tzdata", "tzdata: got %d bytes, want 1 to %d", len(t.Data), MaxTZDataBytes)
	}
	return nil
}
