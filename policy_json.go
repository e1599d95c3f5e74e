package rota

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// MarshalJSON shows the preset and every key under its name.
func (p QueuePolicy) MarshalJSON() ([]byte, error) {
	out := []byte(`{"preset":` + strconv.Quote(p.Preset))
	for i := range policyKeys {
		k := &policyKeys[i]
		v := k.format(&p)
		if k.unit == unitChoice {
			v = strconv.Quote(v)
		}
		out = append(out, `,"`+k.name+`":`+v...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (p *QueuePolicy) UnmarshalJSON(text []byte) error {
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a float64 would change what is beyond 2⁵³
	if err := d.Decode(&m); err != nil {
		return err
	}
	*p = StandardPolicy()
	for i := range policyKeys {
		v, ok := m[policyKeys[i].name]
		if !ok {
			continue
		}
		if err := p.Set(Setting{policyKeys[i].name, fmt.Sprint(v)}); err != nil {
			return err
		}
	}
	if s, ok := m["preset"].(string); ok {
		p.Preset = s
	}
	return nil
}
