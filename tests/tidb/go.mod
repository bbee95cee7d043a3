// Builds tidb-server and tidb-lightning for the tests; see scripts/build_tidb.sh. Nothing of dm is in Go.
module tests/tidb

go 1.25.8

require (
	github.com/pingcap/tidb v1.1.0-beta.0.20260205093021-1eb3d0a8c7a9
	github.com/pingcap/tidb/pkg/parser v0.0.0-20260205093021-1eb3d0a8c7a9
)

// TiDB's own go.mod replaces these; a module that requires TiDB has to say so again.
replace (
	github.com/apache/arrow-go/v18 => github.com/joechenrh/arrow-go/v18 v18.0.0-20250911101656-62c34c9a3b82
	github.com/go-ldap/ldap/v3 => github.com/YangKeao/ldap/v3 v3.4.5-0.20230421065457-369a3bab1117
	sourcegraph.com/sourcegraph/appdash => github.com/sourcegraph/appdash v0.0.0-20190731080439-ebfcffb1b5c0
	sourcegraph.com/sourcegraph/appdash-data => github.com/sourcegraph/appdash-data v0.0.0-20151005221446-73f23eafcf67
)
