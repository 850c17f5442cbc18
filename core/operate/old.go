package operate

import (
	"context"

	"github.com/tickring/tickring/core"
)

// A Triggered is a change of a waiting trigger. Put changes the run, the entries in Drop are removed from the due index, and
// Entry is added. An entry that is in Drop and is also Entry stays. If the run has Params, the new Params must not be nil.
type Triggered struct {
	Put    core.RunPut // new due time, params and addresses of the run
	Drop   []core.DueItem
	Entry  core.DueItem
	Change core.Change
}

// DeadLetters is the dead-letter queue: messages that could not be dispatched.
type DeadLetters interface {
	// Letters reads at most limit messages, newest first. The parameter after is the ID of the last message of the previous
	// page; empty: begin with the newest message.
	Letters(ctx context.Context, after string, limit int) ([]core.Letter, error)
	// DropLetter deletes a message. A missing message is not an error.
	DropLetter(ctx context.Context, id string) error
}
