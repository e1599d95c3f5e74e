package peer

import (
	"errors"
	"fmt"

	"github.com/rotasched/rota"
)

// OfChild turns an error into one about a completion's child (SPEC §23.2): it is invalid, unless there may be room for
// it later.
func OfChild(place int, id string, err error) error {
	e, ok := errors.AsType[*rota.Error](err)
	if !ok {
		return err
	}
	its := *e
	if its.Kind != rota.KindExhausted {
		its.Kind = rota.KindInvalid
	}
	its.Subject = fmt.Sprintf("children[%d].%s", place, e.Subject)
	its.Text = fmt.Sprintf("child %.80q: %s", id, e.Text)
	return &its
}
