// Package job has the commands of jobs, batches and plans.
//
// It never touches a job but through the client, except `job export` of a backup, which only reads.
package job
