package lambdaboot

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// maxRecords is the maximum batch size of an event source mapping.
const maxRecords = 10_000

// AnswerIn is the time before the end of an invocation at which all work must stop. The first half of AnswerIn is for
// storing started work. The second half is for reporting which messages are done and when the other messages must be
// redelivered.
const AnswerIn = 2 * time.Second

// CheckBatch checks the whole event of a queue before any work starts. If a message of the event cannot be reported,
// the queue redelivers the whole event.
func CheckBatch(e *events.SQSEvent) error {
	switch n := len(e.Records); {
	case n == 0:
		return errors.New("the event is not an SQS batch: its list Records is empty or missing")
	case n > maxRecords:
		return fmt.Errorf("batch of %d messages: at most %d are allowed", n, maxRecords)
	}
	for i := range e.Records {
		if e.Records[i].MessageId == "" {
			return fmt.Errorf("record %d of the event has no messageId", i)
		}
	}
	return nil
}
