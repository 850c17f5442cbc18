package store

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/tickring/tickring/core"
)

// storedChange is a change record as it is stored; its ID is in its name.
type storedChange struct {
	ID   int64      `json:"id"`
	At   int64      `json:"at"`
	By   string     `json:"by,omitempty"`
	Verb string     `json:"verb,omitempty"`
	App  string     `json:"app,omitempty"`
	Job  core.JobID `json:"job,omitempty"`
	Name string     `json:"name,omitempty"`
	Why  string     `json:"why,omitempty"`
	Old  string     `json:"old,omitempty"`
	New  string     `json:"new,omitempty"`
	Act  string     `json:"act,omitempty"`
	From string     `json:"from,omitempty"`
	Via  string     `json:"via,omitempty"`
}

// KindChangesOfJob and KindChangesOfApp are the kinds of the change records of a job, and of an app and its jobs. Change
// records without an app have the empty app.
func KindChangesOfJob(job core.JobID) string { return "changes#job#" + job.String() }
func KindChangesOfApp(app string) string     { return "changes#app#" + app }

// ChangesUpTo returns the name before the change records with IDs up to last: names sort by ID, newest first.
func ChangesUpTo(last int64) string { return fmt.Sprintf("%019d", math.MaxInt64-max(last, 0)) }

// ChangeWrites returns the writes of a change record: one for the history of its app, and one for the history of its job.
// Equal change records have equal names, so that a repeated write stores nothing new.
func ChangeWrites(c *core.Change, expires time.Time) []Write {
	says := fnv.New64a()
	says.Write([]byte(c.Says()))
	name := fmt.Sprintf("%s#%010d#%016x", ChangesUpTo(c.ID), c.Job, says.Sum64())
	body, err := json.Marshal(storedChange{ID: c.ID, At: core.Millis(c.At), By: c.By, Verb: c.Verb, App: c.App, Job: c.Job, Name: c.Name,
		Why: c.Why, Old: c.Old, New: c.New, Act: c.Act, From: c.From, Via: c.Via})
	if err != nil {
		panic(fmt.Sprintf("a type of strings and numbers has no JSON: %v", err))
	}
	kinds := []string{KindChangesOfApp(c.App)}
	if c.Job != 0 {
		kinds = append(kinds, KindChangesOfJob(c.Job))
	}
	writes := make([]Write, len(kinds))
	for i, kind := range kinds {
		writes[i] = Write{Was: Any, Record: Record{Key: Key{kind, name}, V: 1, Body: body, Expires: expires}}
	}
	return writes
}

// DecodeChange returns the change record of a stored record.
func DecodeChange(r *Record) (c core.Change, err error) {
	var v storedChange
	if err := json.Unmarshal(r.Body, &v); err != nil {
		return c, fmt.Errorf("read a change record: %w", err)
	}
	return core.Change{ID: v.ID, At: core.FromMillis(v.At), By: v.By, Verb: v.Verb, App: v.App, Job: v.Job, Name: v.Name, Why: v.Why,
		Old: v.Old, New: v.New, Act: v.Act, From: v.From, Via: v.Via}, nil
}
