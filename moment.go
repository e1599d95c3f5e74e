package rota

import "time"

// Moment is one instant in both of the cluster's times: on its clock, which determines what happens, and as a date,
// which is shown to people (SPEC §3.1). The zero value means that the moment was not reached.
//
// In JSON a field of this type, tagged "started", is three: started_ms, the date; started_at, the same in RFC 3339; and
// started_clock_ms (SPEC §16.8).
type Moment struct {
	Clock Clock
	Date  Date
}

// IsZero reports whether the moment was not reached.
func (m Moment) IsZero() bool { return m == Moment{} }

// At returns another moment of the clock as seen from m: as far from m's date as it is from m's clock. A moment that
// was not reached is returned unchanged.
func (m Moment) At(c Clock) Moment {
	if c == 0 {
		return Moment{}
	}
	return Moment{c, m.Date + Date(c-m.Clock)}
}

// On is At for a date.
func (m Moment) On(d Date) Moment {
	if d == 0 {
		return Moment{}
	}
	return Moment{m.Clock + Clock(d-m.Date), d}
}

// dateLayout is RFC 3339 to the millisecond, so that no two dates look the same.
const dateLayout = "2006-01-02T15:04:05.000Z07:00"

// String shows the date in RFC 3339, UTC, to the millisecond; "" for none.
func (d Date) String() string {
	if d == 0 {
		return ""
	}
	return time.UnixMilli(int64(d)).UTC().Format(dateLayout)
}

// Time returns the date in UTC; the zero time for none.
func (d Date) Time() time.Time {
	if d == 0 {
		return time.Time{}
	}
	t := time.UnixMilli(int64(d)).UTC()
	if t.IsZero() {
		t = t.Add(-time.Millisecond) // a date, though an unlikely one: not none
	}
	return t
}

// DateOf returns the date of a time, truncated to milliseconds. The date of the zero time is 0.
func DateOf(t time.Time) Date {
	if t.IsZero() {
		return 0
	}
	return Date(t.UnixMilli())
}

// Time returns the moment's date in UTC; the zero time for a moment that was not reached.
func (m Moment) Time() time.Time { return m.Date.Time() }

// ParseDate parses a date in RFC 3339, truncated to milliseconds.
func ParseDate(text string) (Date, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, Refusef(KindInvalid, "date", "invalid date %q: use RFC 3339, such as 2030-01-02T15:04:05Z", shorten(text))
	}
	return Date(t.UnixMilli()), nil
}
