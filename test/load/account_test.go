package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine/awsengine"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
)

// stub answers each batch that all of it was done, and notes of how many entries.
func stub(t *testing.T, done *int) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		b := batchOf(op, body)
		if b == nil {
			*done = 1
			io.WriteString(w, "{}")
			return
		}
		*done = len(b.all)
		answer := map[string]any{}
		switch b.at {
		case "Statements":
			var done []map[string]string
			for _, raw := range b.all {
				var of struct{ Statement string }
				json.Unmarshal(raw, &of)
				done = append(done, map[string]string{"TableName": of.Statement}) // identifies the answer
			}
			answer["Responses"] = done
		case "Keys":
			answer["Responses"] = map[string]any{b.table: b.all}
		}
		json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s
}

// through returns a place whose emulator is behind an account.
func through(t *testing.T, has fakeaws.Account, done *int) Place {
	s := stub(t, done)
	in, leave, err := Place{s.URL, s.URL}.In(has)
	check.OK(t, err)
	t.Cleanup(leave)
	return in
}

// TestAccountRefuses: the SDK gets the rejected entries of each batch back, and the emulator gets the others.
func TestAccountRefuses(t *testing.T) {
	done := 0
	db, queues := through(t, fakeaws.Account{Refused: 1}, &done).Clients()
	ctx, table := t.Context(), "a"
	key := func(i int) map[string]types.AttributeValue {
		return map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: fmt.Sprint(i)}}
	}
	var keys []map[string]types.AttributeValue
	var writes []types.WriteRequest
	var statements []types.BatchStatementRequest
	send, drop, hide := &sqs.SendMessageBatchInput{QueueUrl: &table}, &sqs.DeleteMessageBatchInput{QueueUrl: &table},
		&sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &table}
	for i := range 10 {
		id := aws.String(fmt.Sprint(i))
		keys = append(keys, key(i))
		writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: key(i)}})
		statements = append(statements, types.BatchStatementRequest{Statement: aws.String(fmt.Sprintf(`UPDATE "a" SET x=%d WHERE k='<&>'`, i))})
		send.Entries = append(send.Entries, sqstypes.SendMessageBatchRequestEntry{Id: id, MessageBody: aws.String("b")})
		drop.Entries = append(drop.Entries, sqstypes.DeleteMessageBatchRequestEntry{Id: id, ReceiptHandle: id})
		hide.Entries = append(hide.Entries, sqstypes.ChangeMessageVisibilityBatchRequestEntry{Id: id, ReceiptHandle: id})
	}
	for name, ask := range map[string]func() (int, error){
		"BatchGetItem": func() (int, error) {
			out, err := db.BatchGetItem(ctx,
				&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: {Keys: keys, ConsistentRead: aws.Bool(true)}}})
			if err != nil {
				return 0, err
			}
			if n := len(out.UnprocessedKeys[table].Keys) + len(out.Responses[table]); n != 10 ||
				!aws.ToBool(out.UnprocessedKeys[table].ConsistentRead) {
				t.Errorf("BatchGetItem: %d of 10 are reported", n)
			}
			return len(out.UnprocessedKeys[table].Keys), nil
		},
		"BatchWriteItem": func() (int, error) {
			out, err := db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: writes}})
			if err != nil {
				return 0, err
			}
			return len(out.UnprocessedItems[table]), nil
		},
		"BatchExecuteStatement": func() (n int, err error) {
			out, err := db.BatchExecuteStatement(ctx, &dynamodb.BatchExecuteStatementInput{Statements: statements})
			if err != nil {
				return 0, err
			}
			for i, r := range out.Responses {
				if r.Error != nil && r.Error.Code == types.BatchStatementErrorCodeEnumThrottlingError {
					n++
				} else if aws.ToString(r.TableName) != *statements[i].Statement {
					t.Errorf("statement %d has the answer of %q", i, aws.ToString(r.TableName))
				}
			}
			return n, nil
		},
		"SendMessageBatch": func() (int, error) {
			out, err := queues.SendMessageBatch(ctx, send)
			if err != nil {
				return 0, err
			}
			return len(out.Failed), nil
		},
		"DeleteMessageBatch": func() (int, error) {
			out, err := queues.DeleteMessageBatch(ctx, drop)
			if err != nil {
				return 0, err
			}
			return len(out.Failed), nil
		},
		"ChangeMessageVisibilityBatch": func() (int, error) {
			out, err := queues.ChangeMessageVisibilityBatch(ctx, hide)
			if err != nil {
				return 0, err
			}
			return len(out.Failed), nil
		},
	} {
		if refused, err := ask(); err != nil || refused == 0 || refused == 10 || done != 10-refused {
			t.Errorf("%s: %d refused, %d done, %v", name, refused, done, err)
		}
	}
}

// TestAccountThrottlesAndDrops: a throttled request, or a closed connection, gives the SDK the same kind of error as in an account.
func TestAccountThrottlesAndDrops(t *testing.T) {
	for _, c := range []struct {
		has       fakeaws.Account
		throttled bool
		done      int
	}{{fakeaws.Account{Throttled: 1}, true, 0}, {fakeaws.Account{Dropped: 1}, false, 0}, {fakeaws.Account{Lost: 1}, false, 1}} {
		done := 0
		db, queues := through(t, c.has, &done).Clients()
		once, name := aws.NopRetryer{}, "a"
		_, err := db.GetItem(t.Context(),
			&dynamodb.GetItemInput{TableName: &name, Key: map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: "v"}}},
			func(o *dynamodb.Options) { o.Retryer = once })
		if is := err != nil && strings.Contains(err.Error(), "ThrottlingException"); err == nil || is != c.throttled || done != c.done {
			t.Errorf("%+v: a table: %v, done %d", c.has, err, done)
		}
		done = 0
		_, err = queues.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &name, MessageBody: aws.String("b")},
			func(o *sqs.Options) { o.Retryer = once })
		var throttled *sqstypes.RequestThrottled
		if is := errors.As(err, &throttled); err == nil || is != c.throttled || done != c.done {
			t.Errorf("%+v: a queue: %v, done %d", c.has, err, done)
		}
	}
}

// A transaction is cancelled, to the SDK, as in an account; a page and a receipt are asked
// for with less than was.
func TestAccountCancelsAndShortens(t *testing.T) {
	done, name := 0, "a"
	db, _ := through(t, fakeaws.Account{Conflict: 1}, &done).Clients()
	_, err := db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: &name, Item: map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: "v"}}}}}})
	var canceled *types.TransactionCanceledException
	if !errors.As(err, &canceled) || len(canceled.CancellationReasons) != 1 ||
		aws.ToString(canceled.CancellationReasons[0].Code) != "TransactionConflict" || done != 0 {
		t.Errorf("%v, done %d", err, done)
	}
	for _, c := range []struct {
		op, asked string
		most      int
		want      string
	}{
		{"Query", `{}`, 3, `{"Limit":3}`}, {"Query", `{"Limit":10}`, 3, `{"Limit":3}`}, {"Query", `{"Limit":2}`, 3, `{"Limit":2}`},
		{"Query", `{"Limit":2}`, 0, `{"Limit":2}`},
		{"ReceiveMessage", `{"MaxNumberOfMessages":10}`, 1, `{"MaxNumberOfMessages":1}`}, {"GetItem", `{}`, 1, `{}`},
	} {
		if got := string(shortened(c.op, []byte(c.asked), c.most)); got != c.want {
			t.Errorf("%s %s of %d: %s", c.op, c.asked, c.most, got)
		}
	}
	asked := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- string(body)
		io.WriteString(w, "{}")
	}))
	t.Cleanup(s.Close)
	in, leave, err := Place{s.URL, s.URL}.In(fakeaws.Account{Short: 1})
	check.OK(t, err)
	t.Cleanup(leave)
	_, queues := in.Clients()
	check.Call(t)(queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &name, MaxNumberOfMessages: 10}))
	if got := <-asked; !strings.Contains(got, `"MaxNumberOfMessages":1`+"}") && !strings.Contains(got, `"MaxNumberOfMessages":1,`) {
		t.Errorf("asked %s", got)
	}
}

const asFunction = "AWSLOAD_TEST_FUNCTION"

// TestMain is also the function that a Sandbox runs in these tests: it answers with as
// many bytes as it is asked for, and when it had to answer; never if they are less than none.
func TestMain(m *testing.M) {
	if os.Getenv(asFunction) == "" {
		os.Exit(m.Run())
	}
	base := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for {
		res, err := http.Get(base + "next")
		if err != nil {
			os.Exit(1)
		}
		var asked struct{ Body string }
		_ = json.NewDecoder(res.Body).Decode(&asked)
		size := 0
		fmt.Sscan(asked.Body, &size)
		if size < 0 {
			select {}
		}
		answer, _ := json.Marshal(map[string]any{"statusCode": 200, "body": strings.Repeat(" ", size),
			"headers": map[string]string{"deadline": res.Header.Get("Lambda-Runtime-Deadline-Ms")}})
		if _, err = http.Post(base+res.Header.Get("Lambda-Runtime-Aws-Request-Id")+"/response", "application/json",
			strings.NewReader(string(answer))); err != nil {
			os.Exit(1)
		}
	}
}

func aFunction(t *testing.T) *Sandbox {
	self, err := os.Executable()
	check.OK(t, err)
	s, err := NewSandbox(self, filepath.Join(t.TempDir(), "log"), Place{}, awsengine.Names{}, asFunction+"=1")
	check.OK(t, err)
	t.Cleanup(s.Close)
	return s
}

func askFor(s *Sandbox, size int) (response, error) {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://door/", nil)
	return ask(s, r, []byte(fmt.Sprint(size)))
}

// TestLargeAnswer: an answer of a function has at most 6 MB.
func TestLargeAnswer(t *testing.T) {
	s := aFunction(t)
	if res, err := askFor(s, 5<<20); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("5 MB: %v", err)
	}
	if _, err := askFor(s, 6<<20); err == nil {
		t.Error("more than 6 MB came through")
	}
	front := httptest.NewRecorder()
	l := &load{registry: s, got: map[core.RunID][]time.Time{}}
	l.front(front, httptest.NewRequest(http.MethodPost, "http://door/", strings.NewReader(fmt.Sprint(6<<20))))
	if front.Code != http.StatusBadGateway {
		t.Errorf("more than 6 MB are answered %d", front.Code)
	}
}

// TestLateAnswer: a function has 29 s to answer a user; if it takes longer it is killed, without an answer.
func TestLateAnswer(t *testing.T) {
	s := aFunction(t)
	before := time.Now()
	res, err := askFor(s, 0)
	check.OK(t, err)
	var until int64
	fmt.Sscan(res.Headers["deadline"], &until)
	const door = 29 * time.Second // timeout of API Gateway
	if d := time.UnixMilli(until); d.Before(before.Add(door).Truncate(time.Millisecond)) || d.After(time.Now().Add(door)) {
		t.Errorf("its deadline is %s after the request", d.Sub(before))
	}
	if _, _, err := s.Invoke([]byte(`{"body":"-1"}`), 100*time.Millisecond); !errors.Is(err, errGone) {
		t.Errorf("no answer in its time: %v", err)
	}
	if s.Kill() {
		t.Error("it lives on")
	}
}

// A function is frozen between two invocations, with all its goroutines, and can be
// killed then.
func TestFrozen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the process state is unknown on this system")
	}
	s := aFunction(t)
	for range 2 {
		check.Call(t)(askFor(s, 0))
		stat := fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid)
		over := time.After(20 * time.Second)
		for state := ""; state != "T"; {
			b, err := os.ReadFile(stat)
			check.OK(t, err)
			_, rest, _ := strings.Cut(string(b), ") ")
			state, _, _ = strings.Cut(rest, " ")
			select {
			case <-over:
				t.Fatalf("its state between two invocations is %s", state)
			default:
			}
		}
	}
	if !s.Kill() {
		t.Error("there was nothing to kill")
	}
	if _, err := askFor(s, 0); err != nil || s.Processes() != 2 {
		t.Errorf("%d processes, %v", s.Processes(), err)
	}
}
