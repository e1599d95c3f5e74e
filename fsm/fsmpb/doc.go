// Package fsmpb is the persisted form of log entries: protobuf inside the
// envelope that package fsm writes and checks.
//
// It holds generated code only and never any rule.
package fsmpb
