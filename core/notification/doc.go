// Package notification decides which notifications a job causes, and delivers them. Each event of a job causes at most one
// notification in a quiet period; the notification has the number of occurrences. A notification is retried on each configured
// channel until the channel accepts it, or until it is a day old.
//
// Events arrive in messages of the post-run queue. A stored item (State) has all data about the notifications of one job, and
// is written conditionally. An index has the time of the job's next check (Look), and is written before the item. If a process
// dies, its message is delivered again or the index still has the check, so another process continues.
// docs/reference/notification-events.md lists the guarantees.
//
// A Sender connects to the channels and writes the texts of messages.
package notification
