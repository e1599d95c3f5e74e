package rest

import (
	"encoding/json"

	"github.com/rotasched/rota"
)

// Value is a setting's value as text. JSON has it as text, a number, or true or false.
type Value string

// UnmarshalJSON implements json.Unmarshaler.
func (v *Value) UnmarshalJSON(text []byte) error {
	switch text[0] {
	case '{', '[', 'n':
		return rota.Refusef(rota.KindInvalid, "set", "set: got the value %.40s; use a string, a number, true or false",
			text)
	case '"':
		return json.Unmarshal(text, (*string)(v))
	}
	*v = Value(text)
	return nil
}
