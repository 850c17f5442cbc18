// Package notification decides which notifications a job causes and delivers them. Each event causes one notification per
// quiet period, with the number of its occurrences. A notification is retried on every configured channel until the channel
// accepts it, or until the notification is a day old.
//
// Events arrive as notes in messages of the post-run queue. One stored item (State) has everything about the notifications
// of one job and is written conditionally. An index has the time of the job's next check (Look) and is written before the
// item. A process that dies thus leaves an unacked message or a check in the index, and another process continues from the
// item. docs/reference/notification-events.md lists the guarantees.
//
// The package does not know how to reach a channel (Sender), or the texts of messages.
package notification
