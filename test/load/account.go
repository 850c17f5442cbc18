package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store"
)

// Limits of functions that answer users or executors. (API Gateway quotas: 30 s for an HTTP API, of which infra leaves a second;
// Lambda quotas: 6 MB of a response.)
const (
	doorTimeout = 29 * time.Second
	maxAnswer   = 6 << 20
)

// account adds behavior of AWS that the local emulators lack, for single requests. Behavior that an emulator would have to remember
// (Stale, Lag), count (Capacity) or start by itself (Torn, TTL) exists only in the fakes.
type account struct {
	has fakeaws.Account
	mu  sync.Mutex
	r   *rand.Rand
}

func newAccount(has fakeaws.Account) *account {
	return &account{has: has, r: rand.New(rand.NewPCG(1, 1))}
}

// in returns the place with the faults of the account added to its requests, until leave is called.
func (a *account) in(p Place) (in Place, leave func()) {
	db, queues := httptest.NewServer(a.forward(p.DynamoDB)), httptest.NewServer(a.forward(p.SQS))
	return Place{db.URL, queues.URL}, func() { db.Close(); queues.Close() }
}

// upstream keeps connections as the functions do.
var upstream = &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}

// forward passes requests on, with the account's faults.
func (a *account) forward(to string) http.HandlerFunc {
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
		if !store.Sleep(r.Context(), f.Wait) {
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
		if !store.Sleep(r.Context(), f.Late) || f.After != nil {
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

// fault chooses a random fault for a request of n entries.
func (a *account) fault(op string, entries int) fakeaws.Fault {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.has.Fault(fakeaws.Call{Op: op, N: entries}, a.r)
}

// throttle answers a request for which there is no room, as its service does.
func throttle(w http.ResponseWriter, sqs bool) {
	kind := "com.amazonaws.dynamodb.v20120810#ThrottlingException"
	if sqs {
		kind = "com.amazonaws.sqs#RequestThrottled"
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"__type":%q,"message":"Rate exceeded"}`, kind)
}

// cancel answers a transaction that met another.
func cancel(w http.ResponseWriter, c *types.TransactionCanceledException) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusBadRequest)
	w.Write(encoded(map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
		"Message": c.Message, "CancellationReasons": c.CancellationReasons}))
}

// hangUp ends a connection without an answer.
func hangUp() { panic(http.ErrAbortHandler) }

type document = map[string]json.RawMessage

// shortened limits a request to a page, or a receipt, of most entries.
func shortened(op string, body []byte, most int) []byte {
	field := map[string]string{"Query": "Limit", "ReceiveMessage": "MaxNumberOfMessages"}[op]
	var doc document
	if most == 0 || field == "" || json.Unmarshal(body, &doc) != nil {
		return body
	}
	var asked int
	if json.Unmarshal(doc[field], &asked) == nil && asked > 0 {
		most = min(most, asked)
	}
	doc[field] = encoded(most)
	return encoded(doc)
}

// batch is a request of many entries, which an account may do a part of.
type batch struct {
	doc    document
	table  string   // if the request names one
	within document // the document of the table, if it contains the keys
	at     string   // field of the entries in doc, or in within
	all    []json.RawMessage
	kept   []int
}

// batchOf reads a request; nil if it has no entries of which a part may fail.
func batchOf(op string, body []byte) *batch {
	b := &batch{}
	if json.Unmarshal(body, &b.doc) != nil {
		return nil
	}
	var from json.RawMessage
	switch op {
	case "BatchGetItem", "BatchWriteItem":
		var tables document
		if json.Unmarshal(b.doc["RequestItems"], &tables) != nil || len(tables) != 1 {
			return nil
		}
		for b.table, from = range tables {
		}
		if op == "BatchGetItem" {
			if json.Unmarshal(from, &b.within) != nil {
				return nil
			}
			b.at, from = "Keys", b.within["Keys"]
		}
	case "BatchExecuteStatement":
		b.at, from = "Statements", b.doc["Statements"]
	case "SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch":
		b.at, from = "Entries", b.doc["Entries"]
	default:
		return nil
	}
	if json.Unmarshal(from, &b.all) != nil {
		return nil
	}
	return b
}

// without returns the request without the rejected entries. At least one entry stays.
func (b *batch) without(refused func(i int) bool) []byte {
	var kept []json.RawMessage
	for i := range b.all {
		if no := refused(i); i == 0 || !no {
			b.kept, kept = append(b.kept, i), append(kept, b.all[i])
		}
	}
	doc := b.doc
	switch b.at {
	case "":
		doc["RequestItems"] = encoded(map[string]any{b.table: kept})
	case "Keys":
		b.within["Keys"] = encoded(kept)
		doc["RequestItems"] = encoded(map[string]any{b.table: b.within})
	default:
		doc[b.at] = encoded(kept)
	}
	return encoded(doc)
}

// with adds the rejected entries to the answer for the others.
func (b *batch) with(answered []byte) []byte {
	var doc document
	if len(b.kept) == len(b.all) || json.Unmarshal(answered, &doc) != nil {
		return answered
	}
	var refused []json.RawMessage
	for i, e := range b.all {
		if !slices.Contains(b.kept, i) {
			refused = append(refused, e)
		}
	}
	switch b.at {
	case "":
		doc["UnprocessedItems"] = encoded(map[string]any{b.table: refused})
	case "Keys":
		b.within["Keys"] = encoded(refused)
		doc["UnprocessedKeys"] = encoded(map[string]any{b.table: b.within})
	case "Statements":
		var done []json.RawMessage
		if json.Unmarshal(doc["Responses"], &done) != nil || len(done) != len(b.kept) {
			return answered
		}
		all := make([]json.RawMessage, len(b.all))
		for i := range all {
			all[i] = json.RawMessage(`{"Error":{"Code":"ThrottlingError","Message":"Rate exceeded"}}`)
		}
		for k, i := range b.kept {
			all[i] = done[k]
		}
		doc["Responses"] = encoded(all)
	default:
		var failed []json.RawMessage
		_ = json.Unmarshal(doc["Failed"], &failed) // there may be none
		for _, e := range refused {
			var of struct{ Id string }
			_ = json.Unmarshal(e, &of)
			failed = append(failed, json.RawMessage(`{"Id":`+strconv.Quote(of.Id)+
				`,"Code":"InternalError","SenderFault":false,"Message":"internal failure"}`))
		}
		doc["Failed"] = encoded(failed)
	}
	return encoded(doc)
}

// encoded encodes a value that was decoded, or consists of such values.
func encoded(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}
