// Package cron tells when a schedule is due (SPEC §17.1, §17.2): by a cron expression in a zone,
// by a period, or on given dates. Zones come from the tzdata in this package, never from the
// host, so that every node of one build reckons the same.
package cron
