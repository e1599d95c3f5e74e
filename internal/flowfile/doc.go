// Package flowfile reads the files that users hand in: workflows in our own format
// (JSON or YAML) and as WfCommons instances, jobs one JSON object a line, and job logs
// in the Standard Workload Format.
//
// What is wrong with a file is said with its line, and several faults at once.
//
// It never calls a cluster, never prints, and never holds more of a file than its
// bounds allow.
package flowfile
