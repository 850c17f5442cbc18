// Package lambdatest invokes handlers of functions as Lambda does: the event and the answer are JSON.
package lambdatest

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/tickring/tickring/internal/testkit/check"
)

// Request sends the event of a file in testdata, changed by pairs of an old and a new text, and returns status and body of the answer.
func Request(t testing.TB, handler any, file string, replace ...string) (status int, body string) {
	t.Helper()
	doc, err := os.ReadFile("testdata/" + file)
	check.OK(t, err)
	var res events.APIGatewayV2HTTPResponse
	out, err := lambda.NewHandler(handler).Invoke(t.Context(), []byte(strings.NewReplacer(replace...).Replace(string(doc))))
	check.OK(t, err)
	check.OK(t, json.Unmarshal(out, &res))
	return res.StatusCode, res.Body
}

// ID returns the ID of the nth message of an event that Batch returns.
func ID(n int) string { return fmt.Sprintf("%08d-40d6-41b9-8e22-a18a1f3ae8d9", n) }

// Batch returns an event of a queue, of messages with these bodies.
func Batch(bodies ...string) []byte {
	var e events.SQSEvent
	for i, b := range bodies {
		e.Records = append(e.Records, events.SQSMessage{MessageId: ID(i + 1), Body: b, EventSource: "aws:sqs"})
	}
	b, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return b
}

// Deliver sends an event of a queue, and returns the IDs of the messages to deliver again.
func Deliver(t testing.TB, handler any, event []byte) (again []string, err error) {
	t.Helper()
	out, err := lambda.NewHandler(handler).Invoke(t.Context(), event)
	if err != nil {
		return nil, err
	}
	var res events.SQSEventResponse
	check.OK(t, json.Unmarshal(out, &res))
	if res.BatchItemFailures == nil {
		t.Errorf("the answer has no list of failures: %s", out)
	}
	for _, f := range res.BatchItemFailures {
		again = append(again, f.ItemIdentifier)
	}
	return again, nil
}
