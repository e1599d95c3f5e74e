// Package promrota counts and times a client's calls for Prometheus, by service, method and code:
// grpc_client_started_total, grpc_client_handled_total, grpc_client_handling_seconds and the messages of streams.
//
// It is a separate package so that a program that imports only client links no metrics library. It never looks into a
// call: labels are names of methods and codes.
package promrota
