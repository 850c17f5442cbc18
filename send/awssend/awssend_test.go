package awssend

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/wire"
)

// fake is Lambda and SQS in their own protocols, as far as one answer goes.
type fake struct {
	url     string
	answers atomic.Int32
	answer  func(w http.ResponseWriter, r *http.Request, body []byte)
}

func serve(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body []byte)) *fake {
	f := &fake{answer: answer}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.answers.Add(1)
		body, _ := io.ReadAll(r.Body)
		f.answer(w, r, body)
	}))
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

// lambdaError is an error as Lambda answers it.
func lambdaError(status int, kind, message string) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("X-Amzn-Errortype", kind)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]string{"Message": message, "Type": "User"})
	}
}

func sqsError(status int, kind, message string) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazonaws.sqs#" + kind, "message": message})
	}
}

func md5Of(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

var credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
})

// functions are on the SDK's client with its own retries on, as a main makes it.
func functions(url string) *Functions {
	return NewFunctions(lambda.New(lambda.Options{Region: "eu-central-1", BaseEndpoint: &url, Credentials: credentials}), nil)
}

// queues are on a client with the SDK's own retries, or the given ones.
func queues(url string, retryer ...aws.Retryer) *Queues {
	o := sqs.Options{Region: "eu-central-1", BaseEndpoint: &url, Credentials: credentials}
	if len(retryer) > 0 {
		o.Retryer = retryer[0]
	}
	return NewQueues(sqs.New(o), "eu-central-1")
}

// TestInvoke checks the meaning of each answer of Lambda. No request is repeated, because a second one could begin a second
// invocation.
func TestInvoke(t *testing.T) {
	accepted := func(w http.ResponseWriter, r *http.Request, _ []byte) {
		check.Equal(t, r.Header.Get("X-Amz-Invocation-Type"), "Event", "invocation type")
		w.Header().Set("X-Amzn-Requestid", "8476a536-e9f4-11e8-9739-2dfe598c3fcd")
		w.WriteHeader(http.StatusAccepted)
	}
	texts := golden.New(t)
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, []byte)
		kind   dispatch.AnswerKind
	}{
		"accepted": {accepted, dispatch.AnswerAccepted},
		"no such function": {lambdaError(404, "ResourceNotFoundException", "Function not found: arn:aws:lambda:…:function:pay"),
			dispatch.AnswerRefused},
		"may not be invoked": {lambdaError(403, "AccessDeniedException", "User: … is not authorized to perform: lambda:InvokeFunction"),
			dispatch.AnswerRefused},
		"too large": {lambdaError(413, "RequestEntityTooLargeException", "Request must be smaller than 1048576 bytes"),
			dispatch.AnswerRefused},
		"no JSON":   {lambdaError(400, "InvalidRequestContentException", "Could not parse request body"), dispatch.AnswerRefused},
		"throttled": {lambdaError(429, "TooManyRequestsException", "Rate Exceeded."), dispatch.AnswerBusy},
		"being changed": {lambdaError(409, "ResourceConflictException", "The function is currently in the following state: Pending"),
			dispatch.AnswerBusy},
		"credentials ran out": {lambdaError(403, "ExpiredTokenException", "The security token included in the request is expired"),
			dispatch.AnswerBusy},
		"its own error": {lambdaError(500, "ServiceException", "internal"), dispatch.AnswerUnconfirmed},
		"a gateway": {func(w http.ResponseWriter, _ *http.Request, _ []byte) { http.Error(w, "<html>", http.StatusBadGateway) },
			dispatch.AnswerUnconfirmed},
		"cut":                   {func(http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) }, dispatch.AnswerUnconfirmed},
		"another way to say it": {func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(200) }, dispatch.AnswerUnconfirmed},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, c.answer)
			a := functions(f.url).Invoke(t.Context(), "pay", []byte(`{}`))
			if a.Kind != c.kind || strings.Contains(a.Message, f.url) {
				t.Errorf("%d %q, want %d", a.Kind, a.Message, c.kind)
			}
			if name != "accepted" {
				texts.Equal(t, name, a.Message)
			}
			check.Equal(t, f.answers.Load(), 1, "it was asked N times")
			if name == "accepted" && a.Request != "8476a536-e9f4-11e8-9739-2dfe598c3fcd" {
				t.Errorf("request %q", a.Request)
			}
		})
	}
}

// TestInvokeWithoutAnswer: an invocation without an answer may have begun; one that was never sent has not.
func TestInvokeWithoutAnswer(t *testing.T) {
	hang := make(chan struct{})
	f := serve(t, func(http.ResponseWriter, *http.Request, []byte) { <-hang })
	defer close(hang)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if a := functions(f.url).Invoke(ctx, "pay", []byte(`{}`)); a.Kind != dispatch.AnswerUnconfirmed || !a.TimedOut {
		t.Errorf("%+v", a)
	}
	check.Equal(t, f.answers.Load(), 1, "it was asked N times")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	nobody := "http://" + l.Addr().String()
	l.Close()
	a := functions(nobody).Invoke(t.Context(), "pay", []byte(`{}`))
	check.Equal(t, a.Kind, dispatch.AnswerRefused, "%+v", a)
	golden.New(t).Equal(t, "not sent", a.Message)
	over, cancel2 := context.WithCancel(t.Context())
	cancel2()
	if a := functions(f.url).Invoke(over, "pay", []byte(`{}`)); a.Kind != dispatch.AnswerBusy {
		t.Errorf("%+v", a)
	}
}

func TestLimit(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request, []byte)
		want   time.Duration
		fails  bool
	}{
		"known": {func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			io.WriteString(w, `{"FunctionName":"pay","Timeout":30}`)
		}, 30 * time.Second, false},
		"may not be read": {lambdaError(403, "AccessDeniedException", "no"), LongestFunction, false},
		"gone":            {lambdaError(404, "ResourceNotFoundException", "no"), LongestFunction, false},
		"unknown":         {lambdaError(400, "InvalidParameterValueException", "no"), 0, true},
	} {
		d, err := functions(serve(t, c.answer).url).Limit(t.Context(), "pay")
		if d != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %s %v", name, d, err)
		}
	}
}

func TestPut(t *testing.T) {
	const mine = "arn:aws:sqs:eu-central-1:123456789012:mail"
	var url string
	put := func(answer func(http.ResponseWriter, *http.Request, []byte)) func(http.ResponseWriter, *http.Request, []byte) {
		return func(w http.ResponseWriter, r *http.Request, body []byte) {
			if r.Header.Get("X-Amz-Target") == "AmazonSQS.GetQueueUrl" {
				io.WriteString(w, `{"QueueUrl":"`+url+`/123456789012/mail"}`)
				return
			}
			answer(w, r, body)
		}
	}
	var got string
	texts := golden.New(t)
	for name, c := range map[string]struct {
		queue  string
		answer func(http.ResponseWriter, *http.Request, []byte)
		kind   dispatch.AnswerKind
		asked  int32
	}{
		"by name": {"mail", put(func(w http.ResponseWriter, _ *http.Request, body []byte) {
			var in struct{ MessageBody, QueueUrl string }
			_ = json.Unmarshal(body, &in)
			got = in.MessageBody
			io.WriteString(w, `{"MessageId":"m","MD5OfMessageBody":"`+md5Of(in.MessageBody)+`"}`)
		}), dispatch.AnswerAccepted, 2},
		"of another Region": {"arn:aws:sqs:us-east-1:123456789012:mail", nil, dispatch.AnswerRefused, 0},
		"not there":         {"mail", sqsError(400, "QueueDoesNotExist", "The specified queue does not exist."), dispatch.AnswerRefused, 1},
		"may not be sent":   {mine, put(sqsError(403, "AccessDeniedException", "no")), dispatch.AnswerRefused, 2},
		"throttled":         {mine, put(sqsError(400, "RequestThrottled", "no")), dispatch.AnswerBusy, 2},
		"its own error":     {mine, put(sqsError(500, "InternalError", "no")), dispatch.AnswerUnconfirmed, 2},
		"cut": {mine, put(func(http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) }),
			dispatch.AnswerUnconfirmed, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, c.answer)
			url = f.url
			a := queues(f.url).Put(t.Context(), nil, c.queue, 1, []byte(`{"jobId":1}`))
			check.Equal(t, a.Kind, c.kind, "%q", a.Message)
			if name != "by name" {
				texts.Equal(t, name, a.Message)
			}
			check.Equal(t, f.answers.Load(), c.asked, "asked N times")
		})
	}
	check.Equal(t, got, `{"jobId":1}`, "the message")
}

// TestURLUnknown: a request for the URL of a queue can be repeated.
func TestURLUnknown(t *testing.T) {
	for status, kind := range map[int]string{400: "RequestThrottled", 500: "InternalError"} {
		f := serve(t, sqsError(status, kind, "no"))
		a := queues(f.url, aws.NopRetryer{}).Put(t.Context(), nil, "mail", 1, nil)
		check.Equal(t, a.Kind, dispatch.AnswerBusy, "%s: %q", kind, a.Message)
	}
}

func TestIdle(t *testing.T) {
	for name, c := range map[string]struct {
		attributes string
		idle       bool
	}{
		"empty": {`{"ApproximateNumberOfMessages":"0","ApproximateNumberOfMessagesNotVisible":"0","ApproximateNumberOfMessagesDelayed":"0"}`, true},
		"waiting": {`{"ApproximateNumberOfMessages":"1","ApproximateNumberOfMessagesNotVisible":"0","ApproximateNumberOfMessagesDelayed":"0"}`,
			false},
		"at work": {`{"ApproximateNumberOfMessages":"0","ApproximateNumberOfMessagesNotVisible":"2","ApproximateNumberOfMessagesDelayed":"0"}`,
			false},
		"not known": {`{"ApproximateNumberOfMessages":"0"}`, false},
	} {
		f := serve(t, nil)
		f.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) {
			if r.Header.Get("X-Amz-Target") == "AmazonSQS.GetQueueUrl" {
				io.WriteString(w, `{"QueueUrl":"`+f.url+`/123456789012/mail"}`)
				return
			}
			io.WriteString(w, `{"Attributes":`+c.attributes+`}`)
		}
		if idle, err := queues(f.url).Idle(t.Context(), nil, "mail", 1); idle != c.idle || err != nil {
			t.Errorf("%s: %t %v", name, idle, err)
		}
	}
}

// TestPayload: from the shipment to the payload: a function receives the same fields as the SDK's /run, and the address for
// reports.
func TestPayload(t *testing.T) {
	var got []byte
	f := serve(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
		got = body
		w.WriteHeader(http.StatusAccepted)
	})
	key := []byte("report key")
	s := send.New(send.Options{Functions: functions(f.url), ReportURL: "https://jobs.example",
		ReportKey: func(context.Context) ([]byte, error) { return key, nil }})
	defer s.Close()
	at := core.Instant(1800000000)
	job := core.Job{Def: core.Def{ID: 7, App: "pay", Name: "salaries", Handler: "salaries", Params: `{"month":"11"}`, Timeout: time.Minute}}
	run := core.Run{ID: core.PlannedRun(7, at), App: "pay", At: at, Slot: at, SentAt: at.Time(), Attempt: 2}
	sh := dispatch.SendRequest{Run: &run, Job: &job, App: &core.App{Name: "pay"}, Address: "lambda:payroll", Params: job.Def.Params}
	if a := s.Send(t.Context(), sh); a.Kind != dispatch.AnswerAccepted {
		t.Fatalf("%+v", a)
	}
	r, err := wire.DecodeRun(got)
	if err != nil || r.LogID != int64(run.ID) || r.Handler != "salaries" || r.Params != job.Def.Params || r.Timeout != 60 {
		t.Errorf("%+v %v", r, err)
	}
	var note struct {
		Tickring send.Note `json:"tickring"`
	}
	check.OK(t, json.Unmarshal(got, &note))
	n := note.Tickring
	if n.Job != "pay/salaries" || n.Run != run.ID.String() || n.Attempt != 2 || !n.ScheduledAt.Equal(at.Time()) ||
		n.Key != send.ReportSignature(key, run.ID) || n.ReportURL != "https://jobs.example/v1/report/"+n.Run+"?key="+n.Key {
		t.Errorf("%+v", n)
	}
	big := strings.Repeat("\x01", core.MaxParams) // six characters each, as JSON
	sh.Params = big
	if a := s.Send(t.Context(), sh); a.Kind != dispatch.AnswerAccepted {
		t.Errorf("the most that params may be: %d %s", a.Kind, a.Message)
	}
	sh.Params = strings.Repeat(big, 3)
	f.answers.Store(0)
	if a := s.Send(t.Context(), sh); a.Kind != dispatch.AnswerRefused || !strings.Contains(a.Message, "1048576") || f.answers.Load() != 0 {
		t.Errorf("over Lambda's limit: %d %s", a.Kind, a.Message)
	}
}

// TestEnvironment: the AWS settings in the environment decide, and a machine without any fails at once.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	if _, _, err := Environment(t.Context()); !errors.Is(err, ErrNotConfigured) {
		t.Errorf("without a Region: %v", err)
	}
	t.Setenv("AWS_REGION", "eu-central-1")
	if _, _, err := Environment(t.Context()); err == nil || errors.Is(err, ErrNotConfigured) {
		t.Errorf("without credentials: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "key")
	if f, q, err := Environment(t.Context()); err != nil || f == nil || q == nil || q.region != "eu-central-1" {
		t.Errorf("%v", err)
	}
}
