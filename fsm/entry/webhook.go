package entry

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// WebhookOp returns the operation that sets a webhook.
func WebhookOp(s *rota.WebhookSpec) *fsmpb.Op {
	op := &fsmpb.SetWebhook{Name: string(s.Name), Url: s.URL, Filter: s.Filter, Generation: s.Generation}
	for _, k := range s.Kinds {
		op.Kinds = append(op.Kinds, uint32(k))
	}
	return &fsmpb.Op{Op: &fsmpb.Op_SetWebhook{SetWebhook: op}}
}

// WebhookWords is the inverse of WebhookOp. Of a list with more kinds than exist it reads one too many.
func WebhookWords(op *fsmpb.SetWebhook) *rota.WebhookSpec {
	s := &rota.WebhookSpec{Name: rota.WebhookName(op.GetName()), URL: op.GetUrl(), Filter: op.GetFilter(),
		Generation: op.GetGeneration()}
	for _, k := range op.GetKinds()[:min(len(op.GetKinds()), 256)] {
		s.Kinds = append(s.Kinds, rota.EventKind(min(k, 255)))
	}
	return s
}

// EventOp returns an event's id as stored in operations.
func EventOp(id rota.EventID) *fsmpb.EventId {
	return &fsmpb.EventId{Incarnation: id.Incarnation, Index: uint64(id.Index), Seq: id.Seq}
}

// EventWords is the inverse of EventOp; nil gives the zero id.
func EventWords(id *fsmpb.EventId) rota.EventID {
	return rota.EventID{Incarnation: id.GetIncarnation(), Index: rota.Index(id.GetIndex()), Seq: id.GetSeq()}
}
