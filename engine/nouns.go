package engine

import "github.com/tickring/tickring/store"

// Nouns implements the ports of use cases that do not take a *store.Store yet.
type Nouns struct{ *store.Store }
