package codec

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// entries writes the entry decoder's readers. A reader reports whether the message has the usual form: unknown fields
// are left to package proto.
func (w *writer) entries(messages map[string]*protogen.Message) error {
	w.head("entry", "github.com/rotasched/rota/fsm/fsmpb", "google.golang.org/protobuf/encoding/protowire")
	w.numbers(entryFields, messages)
	for _, m := range entryMessages {
		w.line("\nfunc (d *Decoder) %s(m *fsmpb.%s, b []byte) bool {", lower(m.name), m.name)
		w.line("for len(b) > 0 {\nf, ok := nextField(&b)\nif !ok {\nreturn false\n}\nswitch f.kind {")
		w.line("case protowire.VarintType:\nswitch f.number {")
		for _, f := range messages[m.name].Fields {
			if f.Desc.Kind() == protoreflect.BoolKind {
				w.line("case %d:\nm.%s = f.value != 0", f.Desc.Number(), f.GoName)
			} else if typ := entryNumbers[f.Desc.Kind()]; typ != "" && !f.Desc.IsList() {
				w.line("case %d:\nm.%s = %s(f.value)", f.Desc.Number(), f.GoName, typ)
			}
		}
		w.line("default:\nreturn false\n}\ncase protowire.BytesType:\nswitch f.number {")
		for _, f := range messages[m.name].Fields {
			s, err := entryBytes(m, f)
			if err != nil {
				return err
			}
			if s != "" {
				w.line("case %d:\n%s", f.Desc.Number(), s)
			}
		}
		w.line("default:\nreturn false\n}\ndefault:\nreturn false\n}\nif !ok {\nreturn false\n}\n}\nreturn true\n}")
	}
	return nil
}

var entryNumbers = map[protoreflect.Kind]string{protoreflect.Int32Kind: "int32", protoreflect.Int64Kind: "int64",
	protoreflect.Uint32Kind: "uint32", protoreflect.Uint64Kind: "uint64"}

// entryBytes returns how a field of bytes is read, "" for a number.
func entryBytes(m entryMessage, f *protogen.Field) (string, error) {
	name := string(f.Desc.Name())
	switch kind := f.Desc.Kind(); {
	case kind == protoreflect.MessageKind && f.Desc.IsList() &&
		slices.ContainsFunc(entryMessages, func(e entryMessage) bool {
			return e.name == f.Message.GoIdent.GoName
		}):
		of := f.Message.GoIdent.GoName
		return fmt.Sprintf("one := &fsmpb.%s{}\nok = d.%s(one, f.bytes)\nm.%s = append(m.%[3]s, one)", of, lower(of),
			f.GoName), nil
	case kind == protoreflect.MessageKind && !f.Desc.IsList() &&
		slices.ContainsFunc(entryMessages, func(e entryMessage) bool {
			return e.name == f.Message.GoIdent.GoName
		}):
		of := f.Message.GoIdent.GoName
		return fmt.Sprintf("if m.%[1]s == nil {\nm.%[1]s = &fsmpb.%[2]s{}\n}\nok = d.%[3]s(m.%[1]s, f.bytes)", f.GoName,
			of, lower(of)), nil
	case kind == protoreflect.StringKind && f.Desc.IsList():
		return fmt.Sprintf("m.%s, ok = d.more(m.%[1]s, f)", f.GoName), nil
	case kind == protoreflect.StringKind:
		how := m.texts[name]
		if how == "" {
			how = "d.word"
		}
		return fmt.Sprintf("m.%s, ok = %s(f)", f.GoName, how), nil
	case kind == protoreflect.BytesKind && !f.Desc.IsList() && slices.Contains(m.lent, name):
		return fmt.Sprintf("m.%s = f.bytes", f.GoName), nil
	case kind == protoreflect.BytesKind && !f.Desc.IsList():
		return fmt.Sprintf("m.%s = append([]byte(nil), f.bytes...)", f.GoName), nil
	case kind == protoreflect.BoolKind || entryNumbers[kind] != "" && !f.Desc.IsList():
		return "", nil
	}
	return "", fmt.Errorf("%s.%s is of a kind that the entry decoder does not read", m.name, name)
}
