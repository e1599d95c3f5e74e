package entry

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// WebhookOp is the operation that sets a webhook.
func WebhookOp(s *rota.WebhookSpec) *fsmpb.Op {
	op := &fsmpb.SetWebhook{Name: string(s.Name), Url: s.URL, Filter: s.Filter, Generation: s.Generation}
	for _, k := range s.Kinds {
		op.Kinds = append(op.Kinds, uint32(k))
	}
	return &fsmpb.Op{Op: &fsmpb.Op_SetWebhook{SetWebhook: op}}
}

// WebhookWords is the inverse of WebhookOp. Of more kinds than there are it reads one too many.
func WebhookWords(op *fsmpb.SetWebhook) *rota.WebhookSpec {
	s := &rota.WebhookSpec{Name: rota.WebhookName(op.GetName()), URL: op.GetUrl(), Filter: op.GetFilter(), Generation: op.GetGeneration()}
	for _, k := range op.GetKinds()[:min(len(op.GetKinds()), 256)] {
		s.Kinds = append(s.Kinds, rota.EventKind(min(k, 255)))
	}
	return s
}

// EventOp is an event's id as operations have it.
func EventOp(id rota.EventID) *fsmpb.EventId {
	return &fsmpb.EventId{Incarnation: id.Incarnation, Index: uint64(id.Index), Seq: id.Seq}
}

// EventWords is the inverse of EventOp; none is the zero id.
func EventWords(id *fsmpb.EventId) rota.EventID {
	return rota.EventID{Incarnation: id.GetIncarnation(), Index: rota.Index(id.GetIndex()), Seq: id.GetSeq()}
}
