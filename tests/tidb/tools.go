//go:build tools

// Package tidb names the program that is built here, so that `go mod tidy` keeps what it needs.
package tidb

import _ "github.com/pingcap/tidb/cmd/tidb-server"
