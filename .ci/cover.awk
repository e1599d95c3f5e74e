# Reads a coverage profile of Go's, in which a block stands once for each package whose
# tests ran it, and prints for each package which part of its statements ran.
NR > 1 {
  block = $1
  if (!(block in statements)) {
    statements[block] = $2
  }
  if ($3 > 0) {
    ran[block] = 1
  }
}
END {
  for (block in statements) {
    package = block
    sub(/\/[^\/]*$/, "", package)
    of[package] += statements[block]
    all += statements[block]
    if (block in ran) {
      done[package] += statements[block]
      total += statements[block]
    }
  }
  for (package in of) {
    printf "%-50s %5.1f %% of %6d\n", package, 100 * done[package] / of[package], of[package]
  }
  if (all > 0) {
    printf "%-50s %5.1f %% of %6d\n", "together", 100 * total / all, all
  }
}
