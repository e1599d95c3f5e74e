// Package workflow has the commands of workflows, and what draws their graphs.
//
// It never touches a workflow but through the client.
package workflow
