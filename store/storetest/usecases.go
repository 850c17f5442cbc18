package storetest

import (
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/store"
)

// nouns returns the methods of kinds whose types use-case packages define.
func nouns(s *store.Store) *engine.Nouns { return &engine.Nouns{Store: s} }

// engineOf returns the ports of use cases that do not take a *store.Store yet.
func engineOf(s *store.Store) *engine.Engine {
	n := nouns(s)
	return &engine.Engine{Store: s, Tick: n, Leases: n, Dispatch: n, Finish: n, Watch: n, Registry: n, Manage: n, Ring: s.Queue, Queue: s.Queue,
		Health: n, Dead: n, PostRun: n, Notices: n, Report: n, People: n, Secrets: s.Secrets, Records: s.Records, Jobs: s.Jobs,
		Runs: s.Runs, ByJournal: s.ByJournal, Writes: s.Writes, Newest: s.Newest, Failed: s.Failed, Close: s.Close}
}
