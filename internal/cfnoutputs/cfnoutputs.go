// Package cfnoutputs names the outputs of a deployment's CloudFormation stack, by which the command line finds the
// deployment. infra/ writes the outputs, and tickring --stack reads them. The package sends no requests.
package cfnoutputs

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The outputs of a stack. Outputs marked as needed always exist; doctor uses the others for more checks.
const (
	Url              = "Url"              // base URL of API, registry and callbacks; needed
	TokenParameter   = "TokenParameter"   // SSM parameter (SecureString) with the token of the API; needed
	JobsTable        = "JobsTable"        // names of tables
	RunsTable        = "RunsTable"        //
	StateTable       = "StateTable"       //
	FiresQueue       = "FiresQueue"       // URLs of queues
	SlowQueue        = "SlowQueue"        //
	ChecksQueue      = "ChecksQueue"      //
	PostRunQueue     = "PostRunQueue"     //
	ResultsQueue     = "ResultsQueue"     //
	DeadQueue        = "DeadQueue"        //
	ResultsQueueArn  = "ResultsQueueArn"  // ARN of a queue, which has the account
	TickFunction     = "TickFunction"     // names of functions
	DispatchFunction = "DispatchFunction" //
	SlowFunction     = "SlowFunction"     //
	PostRunFunction  = "PostRunFunction"  //
	ApiFunction      = "ApiFunction"      //
	CallbackFunction = "CallbackFunction" //
	RegistryFunction = "RegistryFunction" //
	WakeRule         = "WakeRule"         // name of the EventBridge rule that wakes tick
)

// CanaryApp and CanaryJob name the job by which a deployment watches itself. The alarm Canary needs a run every five
// minutes.
const (
	CanaryApp   = "tickring-canary"
	CanaryJob   = "alive"
	CanaryEvery = 3 * time.Minute
)

// Outputs are the outputs of one stack.
type Outputs map[string]string

// Check rejects a stack that is not tickring's.
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

// Emulated reports whether the stack is in an emulator of AWS, by its account.
func (o Outputs) Emulated() bool { return strings.Contains(o[ResultsQueueArn], ":000000000000:") }

// Tables returns the names of the stack's tables, by content.
func (o Outputs) Tables() map[string]string {
	return o.some("Table", JobsTable, RunsTable, StateTable)
}

// Queues returns the URLs of the stack's queues, by purpose.
func (o Outputs) Queues() map[string]string {
	return o.some("Queue", FiresQueue, SlowQueue, ChecksQueue, PostRunQueue, ResultsQueue, DeadQueue)
}

// Functions returns the names of the stack's functions, by purpose.
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

// ValidName reports whether text can be the name of a stack, or its ARN.
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
