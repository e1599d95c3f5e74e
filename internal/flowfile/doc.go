// Package flowfile reads the files that users hand in: workflows in our own format
// (JSON or YAML) and as WfCommons instances, jobs one JSON object a line, and job logs
// in the Standard Workload Format.
//
// An error lists several faults of a file at once, each with its line.
//
// It never calls a cluster, never prints, and never holds more of a file than its
// bounds allow.
package flowfile
