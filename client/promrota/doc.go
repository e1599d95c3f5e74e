// Package promrota counts and times a client's calls for Prometheus, by service, method and code:
// grpc_client_started_total, grpc_client_handled_total, grpc_client_handling_seconds and the
// messages of streams.
//
// It is a package of its own so that a program that imports client alone links no library of
// metrics. It never looks into a call: labels are names of methods and codes.
package promrota
