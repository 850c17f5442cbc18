package notify

import (
	"net/http"
	"net/url"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/send"
)

// Header names of a webhook request, in addition to send.HeaderRun, send.HeaderJob, send.HeaderTime and send.HeaderSignature.
const (
	HeaderEvent  = "Tickring-Event"
	HeaderNotice = "Tickring-Notice" // ID of the notification; it stays the same for each attempt
)

// maxWebhook is how many bytes a webhook gets at most.
const maxWebhook = 64 << 10

// Body is the JSON body of a webhook request. New versions only add fields. Times are in RFC 3339 format, in UTC.
// docs/reference/notification-events.md has the schema.
type Body struct {
	Version    int       `json:"version"` // 1
	ID         string    `json:"id"`
	Event      string    `json:"event"` // kind of event; "test" for a test message
	Channel    string    `json:"channel"`
	Deployment string    `json:"deployment,omitempty"`
	Language   string    `json:"language"`
	Subject    string    `json:"subject"` // subject in the language of the channel
	Text       string    `json:"text"`    // text of the whole message
	At         time.Time `json:"at"`
	Count      int       `json:"count"` // number of notifications that this message represents; at least 1
	Since      time.Time `json:"since,omitzero"`
	Link       string    `json:"link,omitempty"`
	Job        *BodyJob  `json:"job,omitempty"`
	Run        *BodyRun  `json:"run,omitempty"`
	TookMs     int64     `json:"tookMs,omitempty"`
	Times      int       `json:"times,omitempty"`
	Muted      string    `json:"muted,omitempty"` // only for event "mute": name of the channel that rejected a notification
}

// BodyJob is the job of a notification. If Name is empty, the notification is about the app.
type BodyJob struct {
	App   string `json:"app"`
	Name  string `json:"name,omitempty"`
	Title string `json:"title,omitempty"`
}

// BodyRun is the run of a notification. If ID is empty, no run exists, and ScheduledAt is the time that the notification is
// about.
type BodyRun struct {
	ID          string    `json:"id,omitempty"`
	ScheduledAt time.Time `json:"scheduledAt,omitzero"`
	DueAt       time.Time `json:"dueAt,omitzero"`
	State       string    `json:"state,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Code        int       `json:"code,omitempty"`
	Message     string    `json:"message,omitempty"`
	Log         string    `json:"log,omitempty"` // last lines of the run's log
}

// webhook is a message for a webhook, signed as the calls of executors are where the channel has
// a secret: attempt, instant and callback are empty.
func webhook(s *Sender, ch *core.Channel, m *Message) (request, error) {
	u, err := url.Parse(ch.URL)
	if err != nil {
		return request{}, permanent("the URL of channel %s cannot be read", ch.Name)
	}
	body, err := fit(ch, m, func(p page) ([]byte, bool) {
		b := Body{Version: 1, ID: m.ID, Event: m.Event, Channel: ch.Name, Deployment: line(m.Deployment, maxWord), Language: string(ch.Language),
			Subject: p.subject, Text: p.body(), At: m.At.UTC().Truncate(time.Millisecond), Count: max(m.Count, 1),
			Since: m.Since.UTC().Truncate(time.Millisecond), Link: p.link, TookMs: m.Took.Milliseconds(), Times: m.Times, Muted: m.Muted}
		if b.Event == "" {
			b.Event = "test"
		}
		if m.App != "" {
			b.Job = &BodyJob{App: m.App, Name: m.Job, Title: line(m.Title, 4*maxWord)}
		}
		r := BodyRun{ScheduledAt: m.Instant.Time(), DueAt: m.Due.Time(), State: string(m.State), Reason: string(m.Reason), Code: m.Code,
			Message: clean(m.Text, 8<<10), Log: p.lines}
		if m.Run != 0 {
			r.ID = m.Run.String()
		}
		if r != (BodyRun{}) {
			b.Run = &r
		}
		body := encode(b)
		return body, len(body) <= maxWebhook
	})
	if err != nil {
		return request{}, err
	}
	h := http.Header{}
	h.Set(HeaderNotice, m.ID)
	h.Set("Idempotency-Key", m.ID)
	h.Set(HeaderEvent, m.Event)
	if m.Event == "" {
		h.Set(HeaderEvent, "test")
	}
	if m.Run != 0 {
		h.Set(send.HeaderRun, m.Run.String())
	}
	if m.Job != "" {
		h.Set(send.HeaderJob, nameOf(m))
	}
	h.Set(send.HeaderTime, s.o.Now().UTC().Format(time.RFC3339))
	if ch.Secret != "" {
		h.Set(send.HeaderSignature, send.Signature(ch.Secret, http.MethodPost, u.Host, u.RequestURI(), h, string(body)))
	}
	return request{ch.URL, h, body}, nil
}
