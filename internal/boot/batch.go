package boot

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// maxRecords is what a mapping may be set to.
const maxRecords = 10_000

// AnswerIn is how long before the end of an invocation all work ends: time to
// store what was begun and to say which messages are done, and when the others are
// to come again, for which there is half of it.
const AnswerIn = 2 * time.Second

// CheckBatch looks at the whole event of a queue before anything of it is done: an event that
// cannot be answered for comes again as a whole.
func CheckBatch(e *events.SQSEvent) error {
	switch n := len(e.Records); {
	case n == 0:
		return errors.New("the event is no batch of a queue: it has no Records")
	case n > maxRecords:
		return fmt.Errorf("a batch of %d messages; at most %d are allowed", n, maxRecords)
	}
	for i := range e.Records {
		if e.Records[i].MessageId == "" {
			return fmt.Errorf("record %d of the event has no messageId", i)
		}
	}
	return nil
}
