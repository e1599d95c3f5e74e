// Package cron calculates when a schedule is due (SPEC §17.1, §17.2): by a cron expression in a zone, by a period, or
// on given dates. Zones come from one release of the IANA time zone database, never from the host: from the release
// in the binary, or from one that was installed on the whole cluster, so that every node calculates the same dates.
package cron
