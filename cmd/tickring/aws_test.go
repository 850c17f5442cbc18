package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
)

// awsAnswers are the answers about all stacks. STACK is prod or broken.
var awsAnswers = map[string]string{
	"dynamodb DescribeTimeToLive": `{"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}}`,
	"dynamodb DescribeContinuousBackups": `{"ContinuousBackupsDescription": {"PointInTimeRecoveryDescription": ` +
		`{"PointInTimeRecoveryStatus": "ENABLED"}}}`,
	"monitoring GetMetricStatistics": "<GetMetricStatisticsResponse><GetMetricStatisticsResult>" +
		"<Datapoints><member><Sum>0.0</Sum></member></Datapoints></GetMetricStatisticsResult></GetMetricStatisticsResponse>",
	"lambda configuration": `{"State": "Active", "LastUpdateStatus": "Successful", "Timeout": 30,
		"Environment": {"Variables": {"TICKRING_ADMIN_TOKEN": "sesame"}}}`,
	"lambda concurrency":      `{}`,
	"lambda recursion-config": `{"RecursiveLoop": "Allow"}`,
	"lambda event-source-mappings": `{"EventSourceMappings": [{"EventSourceArn": "arn:aws:sqs:eu-central-1:1:STACK-firesqueue", "State": "Enabled"},
		{"EventSourceArn": "arn:aws:sqs:eu-central-1:1:STACK-checksqueue", "State": "Enabled"}]}`,
	"lambda account-settings": `{"AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 900}}`,
}

// testAWS fakes the AWS APIs for four stacks: `prod`, whose API is at api; `broken`, which has many faults; `fresh`, which creates
// its token at the first request; and `other`, which is not a tickring stack. It accepts only requests that are signed with the key
// AKIDTEST for the right service.
func testAWS(api *httptest.Server) *httptest.Server {
	var denied atomic.Bool // asked about broken last
	var asked atomic.Bool  // the API of fresh
	fresh := http.StripPrefix("/fresh", api.Config.Handler)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/fresh/") {
			asked.Store(true)
			fresh.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		auth := r.Header.Get("Authorization")
		_, scope, _ := strings.Cut(auth, "Credential=AKIDTEST/")
		parts := strings.Split(scope, "/")
		if auth == "" { // its clock is asked without a signature
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if len(parts) < 4 || parts[1] != "eu-central-1" || !strings.Contains(auth, "SignedHeaders=") || r.Header.Get("X-Amz-Date") == "" {
			refuse(w, 403, "UnrecognizedClientException", "The security token included in the request is invalid.")
			return
		}
		service := parts[2]
		_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		var in map[string]any
		json.Unmarshal(body, &in)
		form, _ := url.ParseQuery(string(body))
		broken := strings.Contains(string(body)+r.URL.Path+r.URL.RawQuery, "broken-")
		what := service + " " + action + form.Get("Action")
		if service == "lambda" {
			what += path.Base(r.URL.Path)
		}
		if said, is := awsAnswers[what]; is {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, strings.ReplaceAll(said, "STACK", map[bool]string{false: "prod", true: "broken"}[broken]))
			return
		}
		switch what {
		case "cloudformation DescribeStacks":
			outputs := map[string]string{}
			denied.Store(form.Get("StackName") == "broken")
			switch name := form.Get("StackName"); name {
			case "fresh":
				outputs["Url"], outputs["TokenParameter"] = "http://"+r.Host+"/fresh", "/tickring/fresh/token"
			case "prod", "broken":
				for _, k := range []string{"JobsTable", "RunsTable", "StateTable", "TickFunction", "DispatchFunction", "WakeRule"} {
					outputs[k] = name + "-" + strings.ToLower(k)
				}
				for _, k := range []string{"FiresQueue", "ChecksQueue", "DeadQueue"} {
					outputs[k] = "http://" + r.Host + "/1/" + name + "-" + strings.ToLower(k)
				}
				outputs["Url"], outputs["TokenParameter"] = api.URL, "/tickring/"+name+"/token"
			case "other":
			default:
				w.WriteHeader(400)
				fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>ValidationError</Code><Message>Stack with id %s does not "+
					"exist</Message></Error></ErrorResponse>", name)
				return
			}
			fmt.Fprint(w, "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackStatus>CREATE_COMPLETE</StackStatus><Outputs>")
			for k, v := range outputs {
				fmt.Fprintf(w, "<member><OutputKey>%s</OutputKey><OutputValue>", k)
				xml.EscapeText(w, []byte(v))
				fmt.Fprint(w, "</OutputValue></member>")
			}
			fmt.Fprint(w, "</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>")
		case "ssm GetParameter":
			if in["WithDecryption"] != true {
				refuse(w, 400, "ValidationException", "a SecureString is asked for in clear")
				return
			}
			if in["Name"] == "/tickring/fresh/token" && !asked.Load() {
				refuse(w, 400, "ParameterNotFound", "")
				return
			}
			if in["Name"] == "/tickring/broken/token" {
				answer(w, map[string]any{"Parameter": map[string]any{"Value": "another token"}})
				return
			}
			answer(w, map[string]any{"Parameter": map[string]any{"Value": "sesame"}})
		case "dynamodb DescribeTable":
			if broken && strings.Contains(string(body), "runstable") {
				refuse(w, 400, "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException", "Requested resource not found")
				return
			}
			answer(w, map[string]any{"Table": map[string]any{"TableStatus": "ACTIVE", "DeletionProtectionEnabled": !broken,
				"GlobalSecondaryIndexes": []any{map[string]any{"IndexName": "due", "IndexStatus": "ACTIVE"}}}})
		case "dynamodb DescribeLimits":
			if denied.Load() {
				refuse(w, 400, "AccessDeniedException", "User ann is not authorized to perform dynamodb:DescribeLimits")
				return
			}
			io.WriteString(w, `{"TableMaxReadCapacityUnits": 40000, "TableMaxWriteCapacityUnits": 40000}`)
		case "sqs GetQueueAttributes":
			a := map[string]string{"VisibilityTimeout": "60", "MessageRetentionPeriod": "1209600", "ApproximateNumberOfMessages": "0",
				"ApproximateNumberOfMessagesDelayed": "3", "ApproximateNumberOfMessagesNotVisible": "0"}
			if !strings.Contains(string(body), "deadqueue") {
				a["RedrivePolicy"] = `{"deadLetterTargetArn":"arn:aws:sqs:eu-central-1:1:prod-deadqueue","maxReceiveCount":100}`
				if broken {
					a["RedrivePolicy"] = `{"deadLetterTargetArn":"arn:aws:sqs:eu-central-1:1:broken-deadqueue","maxReceiveCount":"100"}`
				}
			} else if broken {
				a["ApproximateNumberOfMessages"] = "2"
			}
			answer(w, map[string]any{"Attributes": a})
		case "events DescribeRule":
			state := map[bool]string{false: "ENABLED", true: "DISABLED"}[broken]
			answer(w, map[string]any{"State": state, "ScheduleExpression": "rate(1 minute)"})
		default:
			refuse(w, 400, "UnknownOperationException", what)
		}
	}))
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"__type": code, "message": message})
}
