// Package cfnoutputs has the names of the outputs of a deployment's CloudFormation stack. The package infra writes
// these outputs. `tickring --stack` reads them to find the deployment. The package sends no requests.
package cfnoutputs

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Keys of the outputs of a deployment's stack. An output marked "required" always exists. `tickring doctor` uses the
// other outputs for additional checks.
const (
	Url = "Url" // base URL of the API, the registry and the callbacks; required
	// TokenParameter is the name of the SSM parameter (SecureString) with the token of the API; required.
	TokenParameter   = "TokenParameter"
	JobsTable        = "JobsTable"        // name of the table of jobs
	RunsTable        = "RunsTable"        // name of the table of runs
	StateTable       = "StateTable"       // name of the table of deployment state
	FiresQueue       = "FiresQueue"       // URL of the delay queue
	SlowQueue        = "SlowQueue"        // URL of the slow queue
	ChecksQueue      = "ChecksQueue"      // URL of the queue for checks of open runs
	PostRunQueue     = "PostRunQueue"     // URL of the post-run queue
	ResultsQueue     = "ResultsQueue"     // URL of the queue for results of Lambda functions
	DeadQueue        = "DeadQueue"        // URL of the dead-letter queue
	ResultsQueueArn  = "ResultsQueueArn"  // ARN of the results queue, which contains the account ID
	TickFunction     = "TickFunction"     // name of the function that plans runs
	DispatchFunction = "DispatchFunction" // name of the function that sends runs
	SlowFunction     = "SlowFunction"     // name of the function that sends runs from the slow queue
	PostRunFunction  = "PostRunFunction"  // name of the function that does the work after the end of runs
	ApiFunction      = "ApiFunction"      // name of the function that serves the HTTP API
	CallbackFunction = "CallbackFunction" // name of the function that receives results
	RegistryFunction = "RegistryFunction" // name of the function that registers executors
	WakeRule         = "WakeRule"         // name of the EventBridge rule that starts the function tick
)

// CanaryApp and CanaryJob are the app and the name of the canary job, with which a deployment checks itself. The alarm
// Canary fires if no run of this job succeeds for five minutes.
const (
	CanaryApp   = "tickring-canary"
	CanaryJob   = "alive"
	CanaryEvery = 3 * time.Minute
)

// Outputs has the outputs of one stack, by output key.
type Outputs map[string]string

// Check returns an error if the stack is not a tickring stack.
func (o Outputs) Check(name string) error {
	var missing []string
	for _, key := range []string{Url, TokenParameter} {
		if o[key] == "" {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the stack %s has no output %s: check that the stack is a deployment of tickring", name, strings.Join(missing, ", "))
	}
	return nil
}

// Emulated reports whether the stack is in an AWS emulator, judging by the account ID.
func (o Outputs) Emulated() bool { return strings.Contains(o[ResultsQueueArn], ":000000000000:") }

// Tables returns the names of the stack's DynamoDB tables. The keys are jobs, runs and state.
func (o Outputs) Tables() map[string]string {
	return o.some("Table", JobsTable, RunsTable, StateTable)
}

// Queues returns the URLs of the stack's queues, by the purpose of the queue.
func (o Outputs) Queues() map[string]string {
	return o.some("Queue", FiresQueue, SlowQueue, ChecksQueue, PostRunQueue, ResultsQueue, DeadQueue)
}

// Functions returns the names of the stack's Lambda functions, by the purpose of the function.
func (o Outputs) Functions() map[string]string {
	return o.some("Function", TickFunction, DispatchFunction, SlowFunction, PostRunFunction, ApiFunction, CallbackFunction, RegistryFunction)
}

func (o Outputs) some(suffix string, keys ...string) map[string]string {
	found := map[string]string{}
	for key, v := range o {
		if slices.Contains(keys, key) && v != "" {
			found[strings.ToLower(strings.TrimSuffix(key, suffix))] = v
		}
	}
	return found
}

// ValidName reports whether text can be the name or the ARN of a stack.
func ValidName(text string) bool {
	if text == "" || len(text) > 256 {
		return false
	}
	if strings.HasPrefix(text, "arn:") {
		return !strings.ContainsAny(text, " \t\r\n")
	}
	for i, r := range text {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return len(text) <= 128
}
