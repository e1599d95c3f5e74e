// Package webui replaces the package of the same path, whose files are not part of the module.
package webui

import "testing/fstest"

// FS is empty: this build has no web pages.
var FS = fstest.MapFS{}
