package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store/dynamo"
)

// A meter is a proxy between one function and the emulators that counts the units AWS charges for: units as DynamoDB reports them,
// requested with ReturnConsumedCapacity=INDEXES; PartiQL statements, which have no reported units; and requests to queues, one for
// each 64 KB.
type meter struct {
	db, sqs *local

	mu         sync.Mutex
	calls      map[string]int     // by operation, and table
	units      map[string]float64 // the same
	statements map[string]int     // by verb and table
	requests   map[string]int     // to queues, by operation
}

// writes lists the operations that consume write units.
var writes = map[string]bool{"PutItem": true, "UpdateItem": true, "DeleteItem": true, "BatchWriteItem": true, "TransactWriteItems": true}

func newMeter(p Place, a *account) (*meter, error) {
	m := &meter{calls: map[string]int{}, units: map[string]float64{}, statements: map[string]int{}, requests: map[string]int{}}
	var err error
	if m.db, err = listen(forward(p.DynamoDB, a, m.ask, m.told)); err != nil {
		return nil, err
	}
	if m.sqs, err = listen(forward(p.SQS, a, nil, m.queued)); err != nil {
		m.db.close()
		return nil, err
	}
	return m, nil
}

func (m *meter) close() {
	m.db.close()
	m.sqs.close()
}

// environment returns the variables that connect a function to the meter.
func (m *meter) environment() []string {
	return []string{"AWS_ENDPOINT_URL_DYNAMODB=" + m.db.url(), "AWS_ENDPOINT_URL_SQS=" + m.sqs.url()}
}

// upstream keeps connections as the functions do.
var upstream = &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}

// forward passes requests on, with the account's faults and changed by before, and passes request and answer to after.
func forward(to string, a *account, before func(op string, body []byte) []byte,
	after func(op string, asked, answered []byte)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		service, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		b := batchOf(op, body)
		n := 1
		if b != nil {
			n = len(b.all)
		}
		f := a.fault(op, n)
		if !Pause(r.Context(), f.Wait) {
			return
		}
		var canceled *types.TransactionCanceledException
		switch {
		case f.Before == nil:
		case fakeaws.IsThrottled(f.Before):
			throttle(w, service == "AmazonSQS")
			return
		case errors.As(f.Before, &canceled):
			cancel(w, canceled)
			return
		default:
			hangUp()
		}
		if b != nil && f.Part != nil {
			body = b.without(f.Part)
		}
		body = shortened(op, body, f.Short)
		if before != nil {
			body = before(op, body)
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, to+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		req.Header = r.Header.Clone()
		req.Header.Del("Content-Length")
		res, err := upstream.RoundTrip(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		answered, err := io.ReadAll(res.Body)
		if err != nil {
			return
		}
		after(op, body, answered)
		if !Pause(r.Context(), f.Late) || f.After != nil {
			hangUp()
		}
		maps.Copy(w.Header(), res.Header)
		if b != nil && f.Part != nil && res.StatusCode == http.StatusOK {
			answered = b.with(answered)
			w.Header().Del("Content-Length")
			w.Header().Del("X-Amz-Crc32") // of the emulator's answer
		}
		w.WriteHeader(res.StatusCode)
		w.Write(answered)
	}
}

// ask makes a request return its consumed units.
func (m *meter) ask(op string, body []byte) []byte {
	if op == "BatchExecuteStatement" {
		return body
	}
	return slices.Concat([]byte(`{"ReturnConsumedCapacity":"INDEXES",`), bytes.TrimPrefix(body, []byte("{")))
}

type capacity struct {
	TableName     string
	CapacityUnits float64
}

var statementTable = regexp.MustCompile(`^\s*(INSERT INTO|UPDATE|DELETE FROM)\s+"([^"]+)"`)

func (m *meter) told(op string, asked, answered []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if op == "BatchExecuteStatement" {
		var in struct{ Statements []struct{ Statement string } }
		if json.Unmarshal(asked, &in) == nil {
			m.calls[op]++
			for _, s := range in.Statements {
				if f := statementTable.FindStringSubmatch(s.Statement); f != nil {
					m.statements[strings.Fields(f[1])[0]+" "+f[2]]++
				} else {
					m.statements["? "+s.Statement]++
				}
			}
		}
		return
	}
	var out struct{ ConsumedCapacity json.RawMessage }
	if json.Unmarshal(answered, &out) != nil {
		return
	}
	var list []capacity
	if json.Unmarshal(out.ConsumedCapacity, &list) != nil {
		list = make([]capacity, 1)
		if json.Unmarshal(out.ConsumedCapacity, &list[0]) != nil {
			list = nil
		}
	}
	if len(list) == 0 { // a failed condition is charged like a write of one unit
		list = []capacity{{TableName: "failed", CapacityUnits: 1}}
	}
	for _, c := range list {
		m.calls[op+" "+c.TableName]++
		m.units[op+" "+c.TableName] += c.CapacityUnits
	}
}

func (m *meter) queued(op string, asked, _ []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[op] += (len(asked) + 64<<10 - 1) / (64 << 10)
}

// prices has the write units of one PartiQL statement, by table.
type prices map[string]float64

// price measures the cost of statements by writing the same items with PutItem to separate tables: an ended run, and the scheduling
// item of a job whose planAt changes.
func price(ctx context.Context, db *dynamodb.Client, n, copies dynamo.Names, sched map[string]types.AttributeValue) (prices, error) {
	put := func(table string, it map[string]types.AttributeValue) (float64, error) {
		out, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: it,
			ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes})
		if err != nil {
			return 0, fmt.Errorf("weigh an item: %w", err)
		}
		return aws.ToFloat64(out.ConsumedCapacity.CapacityUnits), nil
	}
	runs, err := db.Scan(ctx, &dynamodb.ScanInput{TableName: &n.Runs, Limit: aws.Int32(200)})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read runs to weigh: %w", err)
	case len(runs.Items) == 0:
		return nil, errors.New("there are no runs to weigh")
	}
	sum := 0.0
	for _, it := range runs.Items {
		units, err := put(copies.Runs, it)
		if err != nil {
			return nil, err
		}
		sum += units
	}
	if _, err := put(copies.Jobs, sched); err != nil {
		return nil, err
	}
	moved := maps.Clone(sched)
	moved["planAt"] = &types.AttributeValueMemberS{Value: sched["planAt"].(*types.AttributeValueMemberS).Value + "0"}
	move, err := put(copies.Jobs, moved)
	return prices{n.Runs: sum / float64(len(runs.Items)), n.Jobs: move}, err
}

// writeUnits returns the write units counted so far.
func (m *meter) writeUnits(p prices) (total float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, u := range m.units {
		if op, _, _ := strings.Cut(name, " "); writes[op] {
			total += u
		}
	}
	for name, n := range m.statements {
		_, table, _ := strings.Cut(name, " ")
		total += float64(n) * p[table]
	}
	return total
}

func (m *meter) readUnits() (total float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, u := range m.units {
		if op, _, _ := strings.Cut(name, " "); !writes[op] {
			total += u
		}
	}
	return total
}

func (m *meter) queueRequests() (total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.requests {
		total += n
	}
	return total
}

// lines formats the counts, one operation a line.
func (m *meter) lines() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for name, n := range m.calls {
		if u := m.units[name]; u > 0 {
			list = append(list, fmt.Sprintf("%7d %-60s %9.1f units", n, name, u))
		} else {
			list = append(list, fmt.Sprintf("%7d %s", n, name))
		}
	}
	for name, n := range m.statements {
		list = append(list, fmt.Sprintf("%7d statements %s", n, name))
	}
	for name, n := range m.requests {
		list = append(list, fmt.Sprintf("%7d requests %s", n, name))
	}
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(a[8:], b[8:]) })
	return list
}
