package rota

import (
	"strconv"
	"time"
)

// WhyQuery selects the state on which a job is explained: the current one, or the one at an index or at a moment.
type WhyQuery struct {
	At     Index
	AtDate Date
	// Others requests the other workers considered when the job was placed, which requires a replay of the log.
	Others bool
}

// Past is what reading a past state costs the node that answers.
type Past struct {
	Index Index `json:"index"`
	// From is the index of the state from which the node would start, Entries the number of log entries that it would
	// replay.
	From    Index `json:"from"`
	Entries int64 `json:"entries"`
}

// ParsePast reads an index of the past, or a moment in RFC 3339.
func ParsePast(text string) (WhyQuery, error) {
	if index, err := strconv.ParseUint(text, 10, 64); err == nil {
		return WhyQuery{At: Index(index)}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.UnixMilli() <= 0 {
		return WhyQuery{}, Refusef(KindInvalid, "at", "invalid moment %q: use an index such as 48112, or a date such as 2026-11-25T15:04:05Z", shorten(text))
	}
	return WhyQuery{AtDate: DateOf(at)}, nil
}
