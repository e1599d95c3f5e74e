// Package operator has the commands of who runs a cluster: its status and events, backups, recovery, upgrades and debug
// bundles.
//
// It never writes into the data directory of a node that runs.
package operator
