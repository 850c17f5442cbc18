package manage

import "github.com/tickring/tickring/core"

// Update replaces a job on the condition that the stored Rev equals Seen and the stored Tail equals SeenTail. Tail is
// compared too, because a core.Advance changes Tail without changing Rev.
type Update struct {
	Seen     int64
	SeenTail core.RunID
	// Edges is set to the result of Jobs.Edges if the update gives a parent to a job with children. The store rejects
	// the update if the counter has changed, and otherwise increments the counter.
	Edges  int64
	Job    core.Job
	Change core.Change
}
