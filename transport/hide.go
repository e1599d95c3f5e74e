package transport

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// dataFields are what users put into their jobs, and what their handlers said: only who has
// the right to data sees them.
var dataFields = []protoreflect.FullName{
	"rota.v1.JobSpec.payload", "rota.v1.Attempt.error", "rota.v1.Job.error", "rota.v1.Job.progress_note", "rota.v1.Job.output",
	"rota.v1.Event.payload", "rota.v1.Event.payload_hash", "rota.v1.Event.error_data",
}

// answerable judges a call again whose answer was made by a newer table of rights: a default
// read is judged after its barrier (SECURITY §5.4).
func (s *Server) answerable(p *pass) error {
	if p.need.anybody || p.need.members || p.need.judged || s.options.Core.Access() == p.table {
		return nil
	}
	return s.judge(p)
}

// hide returns an answer without what its caller may not see.
func (p *pass) hide(answer any) any {
	if m, ok := answer.(proto.Message); ok && !p.data() {
		hideIn(m.ProtoReflect())
	}
	return answer
}

// hideIn clears the fields of a message, and of those in it.
func hideIn(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case slices.Contains(dataFields, field.FullName()):
			m.Clear(field)
		case field.Message() == nil || field.IsMap():
		case field.IsList():
			for i := range v.List().Len() {
				hideIn(v.List().Get(i).Message())
			}
		default:
			hideIn(v.Message())
		}
		return true
	})
}

// events returns those of a batch that the caller may read, without what it may not see: who
// lacks the right to audit reads those of tenants. Events are shared and stay as they are.
func (p *pass) events(batch peer.EventBatch) peer.EventBatch {
	audit, data := p.rights.AllowEverywhere(rota.RightAudit), p.data()
	if audit && data {
		return batch
	}
	all := batch.Events
	batch.Events = nil
	for _, e := range all {
		if e.Tenant == "" && !audit {
			continue
		}
		if !data {
			e.Payload, e.PayloadHash, e.Text = "", nil, ""
		}
		batch.Events = append(batch.Events, e)
	}
	return batch
}
