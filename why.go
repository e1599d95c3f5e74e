package rota

import (
	"strconv"
	"time"
)

// WhyQuery says on which state a job is explained: the present one, that at an index, or that
// at a moment.
type WhyQuery struct {
	At     Index
	AtDate Date
	// Others asks who else was looked at when the job was placed, which costs a replay of the past.
	Others bool
}

// Past is what a look at a state of the past costs the node that is asked.
type Past struct {
	Index Index `json:"index"`
	// From is the index of the state from which the node would go on, Entries how many of the log it
	// would replay.
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
