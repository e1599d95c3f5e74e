package upgrade

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// spoken returns the protocols of this tree: of clients and nodes, and the log.
func spoken() *descriptorpb.FileDescriptorSet {
	set := &descriptorpb.FileDescriptorSet{}
	for _, f := range []protoreflect.FileDescriptor{rotav1.File_rota_v1_rota_proto, rotav1.File_rota_v1_node_proto,
		fsmpb.File_fsm_fsmpb_entry_proto} {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	return set
}

func encodeProtocol(t testing.TB) []byte {
	t.Helper()
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(spoken())
	check(t, err)
	return data
}

func readProtocol(t testing.TB, dir string) *descriptorpb.FileDescriptorSet {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, protocolFile))
	check(t, err)
	set := &descriptorpb.FileDescriptorSet{}
	check(t, proto.Unmarshal(data, set))
	if len(set.GetFile()) < 3 {
		t.Fatalf("it has %d files", len(set.GetFile()))
	}
	return set
}

// protocol has the messages, enums and methods of a set, by their full names.
type protocol struct {
	messages map[string]*descriptorpb.DescriptorProto
	enums    map[string]*descriptorpb.EnumDescriptorProto
	methods  map[string]*descriptorpb.MethodDescriptorProto
}

func protocolOf(set *descriptorpb.FileDescriptorSet) *protocol {
	p := &protocol{map[string]*descriptorpb.DescriptorProto{}, map[string]*descriptorpb.EnumDescriptorProto{},
		map[string]*descriptorpb.MethodDescriptorProto{}}
	for _, f := range set.GetFile() {
		p.add(f.GetPackage(), f.GetMessageType(), f.GetEnumType())
		for _, s := range f.GetService() {
			for _, m := range s.GetMethod() {
				p.methods[f.GetPackage()+"."+s.GetName()+"/"+m.GetName()] = m
			}
		}
	}
	return p
}

func (p *protocol) add(within string, messages []*descriptorpb.DescriptorProto,
	enums []*descriptorpb.EnumDescriptorProto) {
	for _, e := range enums {
		p.enums[within+"."+e.GetName()] = e
	}
	for _, m := range messages {
		name := within + "." + m.GetName()
		p.messages[name] = m
		p.add(name, m.GetNestedType(), m.GetEnumType())
	}
}

// shrunk returns the parts of the older protocol that the newer one lacks, or has in another form.
func shrunk(older, newer *descriptorpb.FileDescriptorSet) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	was, is := protocolOf(older), protocolOf(newer)
	for name, m := range was.messages {
		now := is.messages[name]
		if now == nil {
			say("message %s is gone", name)
			continue
		}
		for _, f := range m.GetField() {
			at := slices.IndexFunc(now.GetField(),
				func(g *descriptorpb.FieldDescriptorProto) bool { return g.GetNumber() == f.GetNumber() })
			if at < 0 {
				say("field %d of %s, %s, is gone", f.GetNumber(), name, f.GetName())
				continue
			}
			if a, b := shape(m, f), shape(now, now.GetField()[at]); a != b {
				say("field %d of %s was %s, and is %s", f.GetNumber(), name, a, b)
			}
		}
		for _, r := range m.GetReservedRange() {
			for _, f := range now.GetField() {
				if f.GetNumber() >= r.GetStart() && f.GetNumber() < r.GetEnd() {
					say("field %d of %s, %s, takes a number that was given up", f.GetNumber(), name, f.GetName())
				}
			}
		}
	}
	for name, e := range was.enums {
		for _, v := range e.GetValue() {
			if !slices.ContainsFunc(is.enums[name].GetValue(), func(w *descriptorpb.EnumValueDescriptorProto) bool {
				return w.GetNumber() == v.GetNumber() && w.GetName() == v.GetName()
			}) {
				say("value %d of %s, %s, is gone", v.GetNumber(), name, v.GetName())
			}
		}
	}
	for name, m := range was.methods {
		call := func(m *descriptorpb.MethodDescriptorProto) string {
			return fmt.Sprint(m.GetInputType(), m.GetClientStreaming(), m.GetOutputType(), m.GetServerStreaming())
		}
		switch now := is.methods[name]; {
		case now == nil:
			say("method %s is gone", name)
		case call(m) != call(now):
			say("method %s is another call", name)
		}
	}
	slices.Sort(faults)
	return faults
}

// shape returns the parts of a field that must not change: name and kind, whether it is repeated, and what it excludes.
func shape(m *descriptorpb.DescriptorProto, f *descriptorpb.FieldDescriptorProto) string {
	text := strings.Join([]string{f.GetName(), f.GetLabel().String(), f.GetType().String(), f.GetTypeName(),
		f.GetJsonName()}, " ")
	if f.OneofIndex != nil {
		text += " of " + m.GetOneofDecl()[f.GetOneofIndex()].GetName()
	}
	return text
}

// TestShrunk plants changes that no release may make to a protocol, and changes that each may.
func TestShrunk(t *testing.T) {
	t.Parallel()
	for want, plant := range map[string]func(f *descriptorpb.FileDescriptorProto, m *descriptorpb.DescriptorProto){
		"": func(f *descriptorpb.FileDescriptorProto, m *descriptorpb.DescriptorProto) {
			m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{Name: proto.String("later"),
				Number: proto.Int32(900)})
			f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: proto.String("Later")})
			f.Service[0].Method = append(f.Service[0].Method,
				&descriptorpb.MethodDescriptorProto{Name: proto.String("Later")})
		},
		"message rota.v1.Caller is gone": func(_ *descriptorpb.FileDescriptorProto, m *descriptorpb.DescriptorProto) {
			m.Name = proto.String("Called")
		},
		"field 2 of rota.v1.Caller, cluster_id, is gone": func(_ *descriptorpb.FileDescriptorProto, m *descriptorpb.DescriptorProto) {
			m.Field[1].Number = proto.Int32(900)
		},
		"field 2 of rota.v1.Caller was cluster_id": func(_ *descriptorpb.FileDescriptorProto, m *descriptorpb.DescriptorProto) {
			m.Field[1].Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
		},
		"field 4 of rota.v1.Caller, later, takes a number that was given up": func(_ *descriptorpb.FileDescriptorProto, m *descriptorpb.DescriptorProto) {
			m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{Name: proto.String("later"),
				Number: proto.Int32(4)})
		},
		"method rota.v1.Node/Forward is gone": func(f *descriptorpb.FileDescriptorProto, _ *descriptorpb.DescriptorProto) {
			f.Service[0].Method = f.Service[0].Method[1:]
		},
		"method rota.v1.Node/Forward is another call": func(f *descriptorpb.FileDescriptorProto, _ *descriptorpb.DescriptorProto) {
			f.Service[0].Method[0].ServerStreaming = proto.Bool(true)
		},
	} {
		set := spoken()
		node := set.GetFile()[1]
		at := slices.IndexFunc(node.GetMessageType(),
			func(m *descriptorpb.DescriptorProto) bool { return m.GetName() == "Caller" })
		plant(node, node.GetMessageType()[at])
		faults := shrunk(spoken(), set)
		if want == "" && len(faults) > 0 || want != "" && (len(faults) == 0 || !strings.HasPrefix(faults[0], want)) {
			t.Errorf("%v, wanted %q", faults, want)
		}
	}
}
