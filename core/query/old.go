package query

import "github.com/tickring/tickring/store"

// Recent and RunPlace are the filter and the position of RecentRuns.
type (
	Recent   = store.Recent
	RunPlace = store.RunPlace
)
