package main

import (
	"cmp"
	"fmt"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/manifest"
)

// The words before the names of channels on the command line, for one and for all.
const channelWord, channelsWord = "channel", "channels"

type channelsCmd struct {
	Test channelsTestCmd `cmd:"" help:"Send a test message to a channel."`
}

type channelsTestCmd struct {
	Channel string `arg:"" placeholder:"CHANNEL" help:"Name of the channel; 'tickring get channels' lists all channels."`
}

type channelTest struct {
	Channel string `json:"channel"`
	client.ChannelTest
}

func (c *channelsTestCmd) Run(e *conn) error {
	ch, err := e.channel(c.Channel)
	if err != nil {
		return err
	}
	res, err := e.TestChannel(e.Ctx, c.Channel)
	return e.result(res.Sent, channelTest{c.Channel, res}, err, func() {
		if res.Sent {
			e.printf("test message sent to %s (%s, %s) in %d ms: check that the message arrived\n", ch.Name, ch.Kind, oneLine(ch.To), res.TookMs)
			return
		}
		e.printf("test message not sent to %s (%s, %s)\n  %s\n", ch.Name, ch.Kind, oneLine(ch.To), oneLine(res.Reason))
		switch {
		case res.Permanent:
			e.printf("  a retry would fail in the same way: fix the channel settings, then test again\n")
		case res.After != "":
			e.printf("  the error may be temporary: try again in %s\n", res.After)
		default:
			e.printf("  the error may be temporary: try again\n")
		}
	})
}

func (e *conn) channel(name string) (client.Channel, error) {
	if err := core.CheckChannelName("channel", name); err != nil {
		return client.Channel{}, err
	}
	return e.GetChannel(e.Ctx, name)
}

func (e *conn) listChannels() error {
	list, err := e.ListChannels(e.Ctx)
	if err != nil {
		return err
	}
	if e.Output == "yaml" {
		return e.export(nil, list.Channels, nil, nil)
	}
	rows := [][]string{{"CHANNEL", "KIND", "TO", "LANGUAGE", "TESTED"}}
	for _, c := range list.Channels {
		rows = append(rows, []string{c.Name, c.Kind, oneLine(c.To), c.Language, e.fullOr(c.TestedAt, "", "never")})
	}
	err = e.list(list, nil, "no channels yet: add channels: to a file for tickring apply", rows)
	for _, c := range list.Channels {
		if text := e.troubleText(c.Trouble); text != "" && !e.json() {
			e.printf("%s %s\n", c.Name, text)
		}
	}
	return err
}

func (e *conn) describeChannel(name string) error {
	if name == "" {
		return usagef("name the channel: tickring describe channel NAME; tickring get channels lists them")
	}
	c, err := e.channel(name)
	if err != nil {
		return err
	}
	if e.json() {
		return e.printJSON(c)
	}
	about := &card{{c.Name, "channel"}}
	about.add("kind", c.Kind)
	about.add("to", oneLine(c.To))
	for _, f := range manifest.DiffChannel(nil, &c) {
		if f.Path != "name" {
			about.add(f.Path, f.New)
		}
	}
	about.add("created", e.full(c.CreatedAt, ""))
	about.add("tested", e.fullOr(c.TestedAt, "", ""))
	about.add("trouble", e.troubleText(c.Trouble))
	table(e.Stdout, *about)
	e.printf("to test: tickring channels test %s\n", c.Name)
	return nil
}

func (c *deleteCmd) deleteChannels(e *conn, names []string) error {
	shown := make([]string, len(names))
	for i, name := range names {
		if _, err := e.channel(name); err != nil {
			return err
		}
		shown[i] = "channel " + name
	}
	if err := e.confirmed(c.Yes, "delete", shown); err != nil {
		return err
	}
	return e.each(names, nil, func(name string) error {
		res, err := e.DeleteChannel(e.Ctx, name)
		return e.show(appliedOf(&client.ApplyResult{Applied: true, Channels: []client.ChannelResult{res}}), err, func() {
			e.printf("deleted channel %s\n", res.Name)
		})
	})
}

// subjectOf names the object of a change, for display.
func subjectOf(ch *client.Change) string {
	if ch.Channel != "" {
		return channelWord + " " + ch.Channel
	}
	if ch.User != "" {
		return "user " + ch.User
	}
	if ch.Job == "" && ch.JobID != 0 {
		return fmt.Sprintf("%s, job %d", ch.App, ch.JobID) // its name is forgotten
	}
	return cmp.Or(ch.Job, ch.App, "everything")
}
