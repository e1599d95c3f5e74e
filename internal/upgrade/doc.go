// Package upgrade judges whether the nodes of a cluster can be upgraded one after another, from what they report about
// themselves and, if one is named, what the new binary reports about itself.
//
//	report := upgrade.Facts{Status: status, Peers: peers, Answers: answers, Own: own}.Judge()
//	if !report.Ready { … }
//
// The package never does I/O: it calls no node, reads no clock, and changes nothing.
package upgrade
