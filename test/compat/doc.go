// Command compat runs rota with software that other people wrote, and writes docs/compatibility.md.
//
//	make compat                      # every row; about an hour on two cores the first time
//	make compat ONLY=proxies,stores  # only these groups
//	make compat ONLY=nginx           # only the rows of this tool
//	make compat ONLY=quick           # only rows that take under a minute each
//	make setup-compat                # install the tools, run nothing
//
// A row is one tool and an action with it. The program starts three nodes on loopback, or a cluster for the row if it
// needs other settings, starts the tool, and asks the cluster for the outcome. A row works, fails, or is not run. A
// known failure names its cause in the row's definition. The exit code is 1 if a row fails without one. Rows that were
// not selected keep their line in the page.
//
// Versions are pinned in tools.go. Tools are installed below rota-compat in the user's cache directory, from the
// registries of Go, npm, PyPI, Maven and Debian; nothing is installed on the system. Programs that are expected on the
// machine (python3, node, javac, cargo, PostgreSQL 15) are searched for; a row whose program is missing is not run, and
// the page reports that. Python 3.13 and 3.14 are unpacked from newer releases of Debian. Traefik is built without the
// parts whose modules the registry does not serve; testdata/traefik has their replacements.
//
// Tools are built and run one at a time at a low priority. Each row and each installation has a time limit. All traffic
// stays on loopback.
//
// The program never changes the system, and never ends a process that it did not start.
package main
