// Package notice decides what people are told of a job, and sees to it that they are: each
// event once in its quiet period, with the count of what that stands for, by every channel
// that is to be told, until that took it or a day is over.
//
// What has happened comes as notes, by messages of the aside lane, of whoever saw it. All that
// is known of the notices of one job is one stored item (State), written on the condition that
// nobody wrote it meanwhile; when it is to be looked at next is in an index of its own (Look),
// written before the item. So whoever dies leaves a message that is not acked, or a look that
// is not dropped, and the next one goes on by the item. docs/reference/notification-events.md says what is promised.
//
// It refuses to know how a channel is reached (Sender) and in which words.
package notice
