// Package promrota counts and times a client's calls for Prometheus, by service, method and code. Its metrics are
// grpc_client_started_total, grpc_client_handled_total, grpc_client_handling_seconds, and the numbers of messages sent
// and received on streams.
//
// It is a separate package so that a program that imports only client links no metrics library. Labels are names of
// services, methods and codes, never content of a call.
package promrota
