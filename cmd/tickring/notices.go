package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
)

// noticesText adds rows about a job's notifications: the recipients, the events, and the status of sending. ofApp holds the
// settings of its app. It reports whether the job has recipients.
func (e *conn) noticesText(add func(name, value string), j *client.Job, ofApp client.Notify, zone string) (told bool, err error) {
	spec, err := api.ManageJob(client.JobSpec{Notify: j.Notify})
	if err != nil {
		return false, err
	}
	app, err := api.ManageApp(client.AppSpec{Notify: ofApp})
	if err != nil {
		return false, err
	}
	job := core.Job{Def: spec.Def}
	n := core.EventRule(&job, &core.App{Notify: app.Notify}, &core.Global{})
	if told = len(n.To) > 0; told {
		text := "to " + strings.Join(n.To, ", ")
		if len(job.Def.Notify.To) == 0 {
			text += "   (from the app)"
		}
		add("notifications", text)
		var on []string
		for _, event := range core.Events {
			switch {
			case !n.Includes(event):
			case event == core.EventLate && n.Late > 0:
				on = append(on, "late by "+core.FormatDuration(n.Late))
			case event == core.EventSlow:
				on = append(on, "slow after "+core.FormatDuration(n.Slow))
			case event == core.EventOverdue && n.Overdue.By != "":
				on = append(on, "overdue by "+n.Overdue.By)
			case event == core.EventOverdue:
				on = append(on, "overdue after "+core.FormatDuration(n.Overdue.Within))
			default:
				on = append(on, string(event))
			}
		}
		add("", "on "+strings.Join(on, ", ")+"; at most once per "+core.FormatDuration(n.Quiet))
	}
	if j.Notifications == nil {
		return told, nil
	}
	for _, t := range j.Notifications.Sent {
		add("notified of "+t.Event, e.toldText(&t, zone))
	}
	for i := range j.Notifications.Waiting {
		add("notification waits", j.Notifications.Waiting[i].Event+e.waitingText(&j.Notifications.Waiting[i], zone))
	}
	return told, nil
}

func (e *conn) waitingText(w *client.WaitingNotification, zone string) string {
	text := fmt.Sprintf(" for channel %s since %s, with %d events; tried %s, next attempt at %s", w.Channel, e.full(w.MadeAt, zone), w.Count,
		plural(w.Tries, "time"), e.full(w.NextAt, zone))
	if w.Error != "" {
		text += ": " + oneLine(w.Error)
	}
	return text
}

// noticeText adds a row with the status of the notification about a run's end.
func (e *conn) noticeText(add func(name, value string), r *client.Run) {
	n := r.Notification
	if n == nil {
		return
	}
	text := n.Event + ": "
	switch {
	case n.Status == string(notification.Owed):
		text += "being sent"
	case n.Status == string(notification.Counted):
		text += "counted, to be sent at " + e.full(n.At, r.Timezone)
	case n.At.IsZero():
		text += "sent"
	default:
		text += "sent " + e.full(n.At, r.Timezone)
	}
	add("notification", text)
	for i := range n.Waiting {
		add("", "waits"+e.waitingText(&n.Waiting[i], r.Timezone))
	}
	for _, g := range n.GivenUp {
		add("", fmt.Sprintf("not delivered to channel %s, dropped %s: %s", g.Channel, e.full(g.At, r.Timezone), oneLine(g.Error)))
	}
}

func (e *conn) toldText(t *client.SentNotification, zone string) string {
	text := e.fullOr(t.At, zone, "never")
	if t.QuietUntil.After(time.Now()) || t.Count > 0 {
		text += ", quiet until " + e.full(t.QuietUntil, zone)
	}
	if t.Count > 0 {
		text += fmt.Sprintf("; %d more events, to be reported at that time", t.Count)
	}
	return text
}

// troubleText describes a channel's failures; it is empty if there are none.
func (e *conn) troubleText(t *client.ChannelTrouble) string {
	if t == nil {
		return ""
	}
	text := "rejecting notifications since " + e.full(t.Since, "") + ", last attempt " + e.full(t.LastAt, "")
	if t.GivenUp > 0 {
		text += fmt.Sprintf("; notifications dropped: %d", t.GivenUp)
	}
	return text + ": " + oneLine(t.Error)
}
