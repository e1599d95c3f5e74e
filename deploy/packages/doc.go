// Command packages builds what an operator installs: for each processor a deb, an rpm, an apk, a tarball and a
// CycloneDX bill of materials, and the checksums of all. Two builds of a commit are equal byte for byte: every date in
// a package is the commit's. It is a module of its own, so that rota depends on none of its dependencies (DESIGN.md).
//
// It never signs and never publishes.
package main
