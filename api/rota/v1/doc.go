// Package rotav1 is the public protocol of rota, generated from the .proto files
// beside it: what clients and workers say to any node, and what nodes say to
// each other.
//
// It holds generated code only and never any rule.
package rotav1
