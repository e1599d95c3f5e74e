package fsm

import (
	"encoding/json"
	"fmt"

	"github.com/rotasched/rota"
)

// journal collects the events of the entry that is being applied.
type journal struct {
	m      *Machine
	events []rota.Event
	spare  []rota.Event
	// mute drops events: what no entry changes has none. scratch is room for encoding.
	mute    bool
	scratch []byte
	// payloads are texts of events.
	payloads texts
}

// payload is an event's own data in JSON; what it is made of always has a form.
func payload(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("fsm: a payload has no JSON: %v", err))
	}
	return string(text)
}
