package rota

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rotasched/rota/internal/jsonparts"
)

// Costs are amounts by name, in millionths of a unit (SPEC §30): tokens of a model, requests of different weight,
// money. In JSON an amount is a decimal with at most six fraction digits.
type Costs map[string]int64

// Cost is one amount, in millionths of a unit; in JSON a decimal.
type Cost int64

// CostUnit is one unit of a cost, in millionths.
const CostUnit = 1_000_000

// parseCost returns the millionths of a decimal such as 8000 or 0.25. field names it in the error.
func parseCost(field, text string) (int64, error) {
	whole, fraction, dotted := strings.Cut(withoutExponent(text), ".")
	digits := func(s string) bool {
		return s != "" && strings.Trim(s, "0123456789") == ""
	}
	if !digits(whole) || dotted && !digits(fraction) {
		return 0, Malformed(field, text, "use a decimal such as 8000 or 0.25")
	}
	if fraction = strings.TrimRight(fraction, "0"); len(fraction) > 6 {
		return 0, Malformed(field, text, "use at most six digits after the point")
	}
	units, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || units > MaxCost/CostUnit || units == MaxCost/CostUnit && fraction != "" {
		return 0, Malformed(field, text, "the greatest amount is "+formatCost(MaxCost))
	}
	parts, _ := strconv.ParseInt((fraction + "000000")[:6], 10, 64)
	return units*CostUnit + parts, nil
}

// withoutExponent writes a decimal such as 1.5e-05, as JSON encoders do, without its exponent. It leaves any other text,
// and one whose exponent no cost has.
func withoutExponent(text string) string {
	digits, exponent, has := strings.Cut(strings.ToLower(text), "e")
	if !has {
		return text
	}
	by, err := strconv.Atoi(exponent)
	if err != nil || by < -18 || by > 18 {
		return text
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return text
	}
	all, point := whole+fraction, len(whole)+by
	switch {
	case point <= 0:
		return "0." + strings.Repeat("0", -point) + all
	case point >= len(all):
		return all + strings.Repeat("0", point-len(all))
	}
	return all[:point] + "." + all[point:]
}

// formatCost is the inverse of parseCost: the shortest decimal.
func formatCost(millionths int64) string { return string(appendCost(nil, millionths)) }

func appendCost(b []byte, millionths int64) []byte {
	if millionths < 0 {
		b, millionths = append(b, '-'), -millionths
	}
	b = strconv.AppendInt(b, millionths/CostUnit, 10)
	if part := millionths % CostUnit; part != 0 {
		b = append(append(b, '.'), strings.TrimRight(strconv.FormatInt(CostUnit+part, 10)[1:], "0")...)
	}
	return b
}

// String shows the decimal.
func (c Cost) String() string { return formatCost(int64(c)) }

// MarshalText implements encoding.TextMarshaler.
func (c Cost) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Cost) UnmarshalText(text []byte) error {
	amount, err := parseCost("cost", string(text))
	if err == nil {
		*c = Cost(amount)
	}
	return err
}

// MarshalJSON implements json.Marshaler.
func (c Cost) MarshalJSON() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalJSON implements json.Unmarshaler. It accepts a number or a string.
func (c *Cost) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	return c.UnmarshalText([]byte(strings.Trim(string(text), `"`)))
}

// Names returns the names in order.
func (c Costs) Names() []string {
	if len(c) == 0 {
		return nil
	}
	names := slices.AppendSeq(make([]string, 0, len(c)), maps.Keys(c))
	slices.Sort(names)
	return names
}

// String shows the costs as NAME=AMOUNT, by name.
func (c Costs) String() string {
	list := make([]string, 0, len(c))
	for _, name := range c.Names() {
		list = append(list, name+"="+formatCost(c[name]))
	}
	return strings.Join(list, ",")
}

// MarshalJSON implements json.Marshaler.
func (c Costs) MarshalJSON() ([]byte, error) {
	if c == nil {
		return []byte("null"), nil
	}
	return c.AppendJSON(nil), nil
}

// AppendJSON appends the JSON object to b.
func (c Costs) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	for i, name := range c.Names() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCost(append(appendName(b, name), ':'), c[name])
	}
	return append(b, '}')
}

// appendName appends a name as JSON.
func appendName(b []byte, name string) []byte {
	escapes := func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }
	if strings.ContainsFunc(name, escapes) {
		text, _ := json.Marshal(name) // no text fails
		return append(b, text...)
	}
	return append(append(append(b, '"'), name...), '"')
}

// UnmarshalJSON implements json.Unmarshaler. It accepts an amount as a number or as a string, and refuses a name that is
// given twice.
func (c *Costs) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*c = nil
		return nil
	}
	costs := Costs{}
	var fault error
	isObject := jsonparts.Members(text, func(member, value []byte) {
		name := jsonparts.Name(member)
		units, isWhole := jsonparts.Number(value) // as most are
		amount, err := units*CostUnit, error(nil)
		if !isWhole || value[0] == '-' || units > MaxCost/CostUnit {
			amount, err = parseCost("costs."+shorten(name), strings.Trim(string(value), `"`))
		}
		if _, again := costs[name]; again && err == nil {
			err = Refusef(KindInvalid, "costs", "costs.%s: given twice, want it once", shorten(name))
		}
		if costs[name] = amount; fault == nil {
			fault = err
		}
	})
	if !isObject {
		return Malformed("costs", string(text), `use an object such as {"model": 8000}`)
	}
	if fault == nil {
		*c = costs
	}
	return fault
}

// Check rejects too many costs, invalid names and amounts out of range. field names them in the error.
func (c Costs) Check(field string) error {
	if len(c) > MaxCosts {
		return TooMany(field, len(c), MaxCosts)
	}
	for _, name := range c.Names() {
		if !validCostName(name) {
			return Refusef(KindInvalid, field,
				"%s: got the name %.80q; use 1 to %d bytes of printable ASCII without blanks and any of : = ,",
				field, name, MaxLabelBytes)
		}
		if amount := c[name]; amount < 0 || amount > MaxCost {
			return Refusef(KindInvalid, field, "%s: %s must be between 0 and %s, got %s", field, name,
				formatCost(MaxCost), formatCost(amount))
		}
	}
	return nil
}

func validCostName(name string) bool { return validLabel(name) && !strings.ContainsAny(name, ":=,") }

// ParseCosts reads NAME=AMOUNT texts, as the command line has them.
func ParseCosts(field string, texts []string) (Costs, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	costs := Costs{}
	for _, text := range texts {
		name, amount, ok := strings.Cut(text, "=")
		if _, again := costs[name]; !ok || name == "" || again {
			return nil, Malformed(field, text, "use NAME=AMOUNT, each name once")
		}
		value, err := parseCost(field, amount)
		if err != nil {
			return nil, err
		}
		costs[name] = value
	}
	return costs, costs.Check(field)
}
