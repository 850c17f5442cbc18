package ring

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// Limits of a post-run message. MaxNotes and MaxLooks are the maximum numbers of notes and of check requests.
const (
	MaxNotes = 500
	MaxLooks = 500
	MaxWhy   = 300 // maximum length of Note.Why in bytes
)

// A Note reports an event that may cause a notification.
type Note struct {
	Job    core.JobID // job of the event; 0: none is known
	Event  core.Event
	Run    core.RunID   // run of the event; 0: none. Duplicates of a note are recognized by their run
	At     core.Instant // scheduled time of the run, or of the first skipped run; 0: none
	Reason core.Reason
	Times  int64     // number of occurrences; 0 means one
	Why    string    // description, such as an error
	When   time.Time // when the event happened
}

// EndNotes returns the note of the end of a run; nil if the end cannot cause a notification.
func EndNotes(run *core.Run) []Note {
	e := core.EndEvent(run)
	if e == "" {
		return nil
	}
	return []Note{{Job: run.ID.Job(), Event: e, Run: run.ID, At: run.At, Reason: run.Reason, When: run.EndedAt}}
}

// TruncateReason truncates text to MaxWhy bytes, without splitting a character.
func TruncateReason(text string) string {
	if len(text) > MaxWhy {
		text = strings.ToValidUTF8(text[:MaxWhy], "")
	}
	return text
}

// Noted packs notes into messages of the post-run queue, within the limits of a message. It truncates each Note.Why.
func Noted(notes []Note, now time.Time) []Out {
	const around = 1 << 10 // more than the rest of a message
	var out []Out
	for len(notes) > 0 {
		n := 0
		for size := around; n < min(len(notes), MaxNotes); n++ {
			notes[n].Why = TruncateReason(notes[n].Why)
			b, _ := json.Marshal(encodeNotes(notes[n : n+1])) // its brackets stand for the comma
			if size += len(b); size > MaxBytes && n > 0 {
				break
			}
		}
		some := notes[:n:n]
		notes = notes[n:]
		out = append(out, Out{NotBefore: now, Message: Message{Kind: KindPostRun, Slot: core.InstantOf(now), PostRun: &PostRun{Notes: some}}})
	}
	return out
}

// A CheckRequest requests a check of the notifications of a job.
type CheckRequest struct {
	At  core.Instant // earliest time of the check
	Job core.JobID
}

// Checked returns a message that requests the given checks.
func Checked(looks []CheckRequest, now time.Time) Out {
	return Out{NotBefore: now, Message: Message{Kind: KindPostRun, Slot: core.InstantOf(now), PostRun: &PostRun{Looks: looks}}}
}

type wireLook struct {
	At  int64 `json:"at"`
	Job int64 `json:"job"`
}

type wireNote struct {
	Job    int64       `json:"job,omitempty"`
	Event  core.Event  `json:"event"`
	Run    int64       `json:"run,omitempty"`
	At     int64       `json:"at,omitempty"`
	Reason core.Reason `json:"reason,omitempty"`
	Times  int64       `json:"count,omitempty"` // stored key of earlier releases
	Why    string      `json:"why,omitempty"`
	When   int64       `json:"when"` // milliseconds
}

func encodeNotes(notes []Note) []wireNote {
	if len(notes) == 0 {
		return nil
	}
	list := make([]wireNote, len(notes))
	for i, n := range notes {
		list[i] = wireNote{int64(n.Job), n.Event, int64(n.Run), int64(n.At), n.Reason, n.Times, n.Why, core.Millis(n.When)}
	}
	return list
}

func decodeNotes(list []wireNote) ([]Note, error) {
	if len(list) > MaxNotes {
		return nil, poison("%d notes, at most %d are allowed", len(list), MaxNotes)
	}
	notes := make([]Note, len(list))
	for i, w := range list {
		n := Note{Job: core.JobID(w.Job), Event: w.Event, Run: core.RunID(w.Run), At: core.Instant(w.At), Reason: w.Reason, Times: w.Times,
			Why: w.Why, When: core.FromMillis(w.When)}
		if w.Job < 0 || w.Event == "" || w.Times < 0 || w.Run != 0 && !n.Run.Valid() || int64(n.Job) != w.Job {
			return nil, poison("note %d of job %d is not valid", i, w.Job)
		}
		notes[i] = n
	}
	return notes, nil
}

func encodeLooks(looks []CheckRequest) []wireLook {
	list := make([]wireLook, len(looks))
	for i, l := range looks {
		list[i] = wireLook{int64(l.At), int64(l.Job)}
	}
	return list
}

func decodeLooks(list []wireLook) ([]CheckRequest, error) {
	if len(list) > MaxLooks {
		return nil, poison("%d looks, at most %d are allowed", len(list), MaxLooks)
	}
	looks := make([]CheckRequest, len(list))
	for i, w := range list {
		looks[i] = CheckRequest{core.Instant(w.At), core.JobID(w.Job)}
		if w.Job < 0 || w.At <= 0 || int64(looks[i].Job) != w.Job {
			return nil, poison("look %d at job %d is not valid", i, w.Job)
		}
	}
	return looks, nil
}

func decodePostRun(w *wirePostRun) (*PostRun, error) {
	switch {
	case w == nil:
		return nil, poison("the field postrun is missing")
	case len(w.Notes)+len(w.Looks) > 0 && w.Run == 0:
		notes, err := decodeNotes(w.Notes)
		if err != nil {
			return nil, err
		}
		looks, err := decodeLooks(w.Looks)
		return &PostRun{Notes: notes, Looks: looks}, err
	case !core.RunID(w.Run).Valid():
		return nil, poison("%d is not a run ID", w.Run)
	}
	return &PostRun{Run: core.RunID(w.Run)}, nil
}
