//go:build tools

// Package tidb names the programs that are built here, so that `go mod tidy` keeps what they need.
package tidb

import (
	_ "github.com/pingcap/tidb/cmd/tidb-server"
	_ "github.com/pingcap/tidb/lightning/cmd/tidb-lightning"
)
