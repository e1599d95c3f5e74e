// Package upgrade judges whether the nodes of a cluster can be upgraded one after the other, from what they
// say of themselves and, where one is named, what the new binary says of itself.
//
//	report := upgrade.Facts{Status: status, Peers: peers, Answers: answers, Own: own}.Judge()
//	if !report.Ready { … }
//
// The package never does I/O: it asks no node, reads no clock, and changes nothing.
package upgrade
