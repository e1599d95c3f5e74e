package rota

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Unique requires that at most one job at a time holds a key (SPEC §18). OnConflict decides whether a submission whose
// key another job holds is refused or merged into that job.
type Unique struct {
	// Key is a key chosen by the submitter, at most MaxLabelBytes of UTF-8. It excludes By.
	Key string `json:"key,omitempty"`
	// By builds the key from the job's own UniqueByQueue, UniqueByType and UniqueByArgs.
	By []string `json:"by,omitempty"`
	// Period, if not 0, divides time into buckets from 1970 on; the key applies within the bucket in which the job is
	// to run.
	Period time.Duration `json:"period_ms,omitempty"`
	// Scope lists the phases in which a job holds its key: UniquePending, UniqueRunning and UniqueCompleted. Empty
	// means the first two.
	Scope []string `json:"scope,omitempty"`
	// Keep is how long a completed job holds its key, at most MaxUniqueKeep; only with
	// UniqueCompleted.
	Keep time.Duration `json:"keep_ms,omitempty"`
	// OnConflict is one of UniqueRefuse, UniqueExisting, UniqueReplace, UniqueExtend, UniqueAfter and UniqueCollect.
	// Empty means the first.
	OnConflict string `json:"on_conflict,omitempty"`
	// ExtendMax is the maximum time after its submission to which UniqueExtend or UniqueCollect delays the holder; 0
	// means UniqueExtendMax.
	ExtendMax time.Duration `json:"extend_max_ms,omitempty"`
}

// What Unique.By may list.
const (
	UniqueByQueue = "queue"
	UniqueByType  = "type"
	// UniqueByArgs is the SHA-256 of the payload.
	UniqueByArgs = "args"
)

// What Unique.Scope may list.
const (
	// UniquePending is until the job is leased, and again while it waits for another attempt.
	UniquePending   = "PENDING"
	UniqueRunning   = "RUNNING"
	UniqueCompleted = "COMPLETED"
)

// What becomes of a submission whose key another job holds: Unique.OnConflict.
const (
	// UniqueRefuse rejects the submission with CONFLICT.
	UniqueRefuse = "refuse"
	// UniqueExisting answers with the holder.
	UniqueExisting = "existing"
	// UniqueReplace gives a holder that waits the new payload.
	UniqueReplace = "replace"
	// UniqueExtend is UniqueReplace, and also restarts the delay of a holder that was delayed and never leased.
	UniqueExtend = "extend"
	// UniqueAfter is UniqueReplace, except that a payload that the holder cannot accept because it is running goes to
	// one job that starts after the holder.
	UniqueAfter = "after"
	// UniqueCollect is UniqueAfter with the delay of UniqueExtend; the payload of the job is the JSON list of all
	// payloads, in the order of their submission.
	UniqueCollect = "collect"
)

// Merge is the result for the payload of a submission that was merged into another job (SPEC §18.2).
type Merge string

// The values of Merge.
const (
	// MergeNone is the result of a submission that was not merged, or whose on_conflict asks for nothing.
	MergeNone Merge = ""
	// MergeTaken means that the holder has the payload from then on.
	MergeTaken Merge = "TAKEN"
	// MergeNotTaken means that the payload was dropped, for a reason that the caller may not read.
	MergeNotTaken Merge = "NOT_TAKEN"
	// With these the payload was dropped, because the holder runs, has ended, or is of another queue or type.
	MergeHolderLeased Merge = "HOLDER_LEASED"
	MergeHolderEnded  Merge = "HOLDER_ENDED"
	MergeOtherQueue   Merge = "OTHER_QUEUE"
	MergeOtherType    Merge = "OTHER_TYPE"
	// MergeNoList is for a job that does not collect payloads, MergeListFull for one that has the maximum number of
	// bytes of them. A payload that it cannot accept is not dropped.
	MergeNoList   Merge = "NO_LIST"
	MergeListFull Merge = "LIST_FULL"
	// MergeNotJSON means that a list of JSON cannot hold the payload.
	MergeNotJSON Merge = "NOT_JSON"
)

// Dropped reports whether the payload was dropped.
func (m Merge) Dropped() bool { return m != MergeNone && m != MergeTaken }

// The parts of Unique in the order of their bits: those of By are hashed, those of Scope are compared with a job's
// state.
var (
	uniqueParts     = []string{UniqueByQueue, UniqueByType, UniqueByArgs}
	uniqueScopes    = []string{UniquePending, UniqueRunning, UniqueCompleted}
	uniqueConflicts = []string{UniqueRefuse, UniqueExisting, UniqueReplace, UniqueExtend, UniqueAfter, UniqueCollect}
)

// PartsMask has a bit for each part that By lists: 1 is the queue, 2 the type, 4 the payload.
func (u *Unique) PartsMask() uint64 { return maskOf(u.By, uniqueParts) }

// Holds reports whether a job in a state holds its key.
func (u *Unique) Holds(s JobState) bool {
	phase := ""
	switch {
	case s.Leased():
		phase = UniqueRunning
	case s == JobCompleted:
		phase = UniqueCompleted
	case s == JobBlocked || s == JobDelayed || s == JobQueued:
		phase = UniquePending
	default:
		return false
	}
	if len(u.Scope) == 0 {
		return phase != UniqueCompleted
	}
	return slices.Contains(u.Scope, phase)
}

// Merges reports whether a submission that meets a holder is merged into it.
func (u *Unique) Merges() bool { return u.OnConflict != "" && u.OnConflict != UniqueRefuse }

// Collects reports whether the job's payload is a list that others add to; nil does not.
func (u *Unique) Collects() bool { return u != nil && u.OnConflict == UniqueCollect }

// Succeeds reports whether a submission that cannot be merged into the holder becomes a job after it.
func (u *Unique) Succeeds() bool { return u.OnConflict == UniqueAfter || u.OnConflict == UniqueCollect }

// Extension returns how long after its submission a holder can be delayed.
func (u *Unique) Extension() time.Duration {
	if u.ExtendMax == 0 {
		return UniqueExtendMax
	}
	return u.ExtendMax
}

// Equal reports whether two are equal; none equals none.
func (u *Unique) Equal(v *Unique) bool {
	if u == nil || v == nil {
		return u == v
	}
	return u.Key == v.Key && u.Period == v.Period && u.Keep == v.Keep && u.OnConflict == v.OnConflict &&
		u.ExtendMax == v.ExtendMax && slices.Equal(u.By, v.By) && slices.Equal(u.Scope, v.Scope)
}

func maskOf(list, words []string) (mask uint64) {
	for _, w := range list {
		if i := slices.Index(words, w); i >= 0 {
			mask |= 1 << i
		}
	}
	return mask
}

// check rejects settings by which a job cannot be unique.
func (u *Unique) check() error {
	if u == nil {
		return nil
	}
	switch {
	case u.Key == "" && len(u.By) == 0:
		return Refusef(KindInvalid, "unique", "unique has neither key nor by: set one of them")
	case u.Key != "" && len(u.By) > 0:
		return Refusef(KindInvalid, "unique", "unique has both key and by: set only one of them")
	case len(u.Key) > MaxLabelBytes || !utf8.ValidString(u.Key):
		return Refusef(KindInvalid, "unique", "unique.key: got %d bytes, want at most %d of UTF-8", len(u.Key),
			MaxLabelBytes)
	}
	for _, l := range []struct {
		field       string
		list, words []string
	}{{"by", u.By, uniqueParts}, {"scope", u.Scope, uniqueScopes}} {
		for i, w := range l.list {
			if !slices.Contains(l.words, w) || slices.Contains(l.list[:i], w) {
				return Refusef(KindInvalid, "unique", "unique.%s[%d]: got %.20q; use each of %s at most once", l.field,
					i, w, strings.Join(l.words, ", "))
			}
		}
	}
	if u.OnConflict != "" && !slices.Contains(uniqueConflicts, u.OnConflict) {
		return Refusef(KindInvalid, "unique", "unique.on_conflict must be one of %s, got %.20q",
			strings.Join(uniqueConflicts, ", "), u.OnConflict)
	}
	return u.checkTimes()
}

func (u *Unique) checkTimes() error {
	for _, n := range []struct {
		field string
		value time.Duration
		most  int64
	}{{"period_ms", u.Period, maxMs}, {"keep_ms", u.Keep, MaxUniqueKeep.Milliseconds()}, {"extend_max_ms", u.ExtendMax,
		maxMs}} {
		if ms := n.value.Milliseconds(); ms < 0 || ms > n.most {
			return Refusef(KindInvalid, "unique", "unique.%s must be between 0 and %d, got %s", n.field, n.most,
				quoted(n.field, ms))
		}
	}
	switch completed := slices.Contains(u.Scope, UniqueCompleted); {
	case completed && u.Keep.Milliseconds() == 0:
		return Refusef(KindInvalid, "unique",
			"unique.keep_ms is 0, but scope has COMPLETED: set how long a completed job keeps its key")
	case !completed && u.Keep != 0:
		return Refusef(KindInvalid, "unique",
			"unique.keep_ms: got %d without COMPLETED in scope; add COMPLETED, or omit keep_ms", u.Keep.Milliseconds())
	case u.ExtendMax != 0 && u.OnConflict != UniqueExtend && u.OnConflict != UniqueCollect:
		return Refusef(KindInvalid, "unique",
			"unique.extend_max_ms: got %d with on_conflict %q; only %q and %q delay a job", u.ExtendMax.Milliseconds(),
			u.OnConflict, UniqueExtend, UniqueCollect)
	case u.Succeeds() && len(u.Scope) > 0 && !slices.Contains(u.Scope, UniquePending):
		return Refusef(KindInvalid, "unique",
			"unique.scope must have PENDING if on_conflict is %q: a pending job must hold its key",
			u.OnConflict)
	case u.Collects() && slices.Contains(u.By, UniqueByArgs):
		return Refusef(KindInvalid, "unique",
			"unique.by must not have args if on_conflict is %q: different payloads would have different keys",
			u.OnConflict)
	}
	return nil
}
