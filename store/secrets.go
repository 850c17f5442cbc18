package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
)

// Secrets re-encrypts stored secrets.
type Secrets interface {
	// Reseal encrypts secrets that use an older key with the newest key. It starts at the record named by from (empty: the
	// first) and returns how many records it changed and the place to continue at; empty is the end.
	Reseal(ctx context.Context, from string) (changed int, next string, err error)
}

// Definition is the definition of a job as a store keeps it.
type Definition struct {
	Job  core.JobID
	Text string
	New  string // text to replace it with
}

// Definitions are the stored definitions of jobs, with their secrets encrypted. Jobs.Put cannot encrypt them again: an
// update also replaces the planning data, which a core.Advance can change between the read and the write.
type Definitions interface {
	// ListDefinitions reads the definitions of the next jobs after a job. next is the job to continue after; 0 means the end.
	ListDefinitions(ctx context.Context, after core.JobID, limit int) (list []Definition, next core.JobID, err error)
	// ReplaceDefinitions replaces each definition on the condition that the stored text is still Text.
	ReplaceDefinitions(ctx context.Context, list []Definition) []error
}

// resealJobs encrypts the secrets of the next jobs with the newest key. It skips a job that another process changes at the
// same time: that process uses the newest key.
func (s *Store) resealJobs(ctx context.Context, defs Definitions, place string) (changed int, next string, err error) {
	var after core.JobID
	if place != "" {
		if _, err := fmt.Sscanf(place, "%d", &after); err != nil {
			return 0, "", core.Invalid("after", place, "expected the value of next from the previous part")
		}
	}
	list, behind, err := defs.ListDefinitions(ctx, after, resealAtOnce)
	if err != nil {
		return 0, "", err
	}
	var replace []Definition
	for _, stored := range list {
		var d core.Def
		if json.Unmarshal([]byte(stored.Text), &d) != nil { // damaged: other commands report it
			continue
		}
		d, differs, err := secretbox.Reseal(s.Box, d)
		if err != nil {
			return 0, "", err
		}
		if differs {
			text, err := json.Marshal(&d)
			if err != nil {
				return 0, "", err
			}
			stored.New = string(text)
			replace = append(replace, stored)
		}
	}
	for _, err := range defs.ReplaceDefinitions(ctx, replace) {
		switch {
		case err == nil:
			changed++
		case !errors.Is(err, core.ErrRefused):
			return changed, "", fmt.Errorf("write a job with its secrets: %w", err)
		}
	}
	if behind != 0 {
		next = behind.String()
	}
	return changed, next, nil
}

// resealAtOnce is how many records one call of Reseal reads.
const resealAtOnce = 100

// resealing re-encrypts apps, channels, and then jobs. A place is the kind of a record, a slash, and a name or a job ID.
type resealing struct {
	*Store
	jobs Definitions
}

// Resealing returns the Secrets of an engine.
func (s *Store) Resealing(jobs Definitions) Secrets { return resealing{s, jobs} }

func (r resealing) Reseal(ctx context.Context, from string) (changed int, next string, err error) {
	if from == "" {
		from = "app/"
	}
	kind, place, _ := strings.Cut(from, "/")
	then := "" // kind after this one
	switch kind {
	case "app":
		changed, next, err = reseal(ctx, r.Store, apps, place, resealAtOnce)
		then = "channel/"
	case "channel":
		changed, next, err = reseal(ctx, r.Store, channels, place, resealAtOnce)
		then = "job/"
	case "job":
		changed, next, err = r.resealJobs(ctx, r.jobs, place)
	default:
		err = core.Invalid("after", from, "expected the value of next from the previous part")
	}
	if next != "" {
		return changed, kind + "/" + next, err
	}
	return changed, then, err
}
