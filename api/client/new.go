// Package client talks to a tickring server. New makes a client; its methods
// are those of the OpenAPI document, and Decode reads their answers:
//
//	c, err := client.New("http://127.0.0.1:7700", token, client.Config{})
//	job, err := client.Decode[client.Job](c.GetJob(ctx, "reports", "nightly"))
//
// This package is public. It needs nothing else of this repository.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ActorHeader is the header in which a caller may say who asks.
const ActorHeader = "Tickring-Actor"

// Config of New. The zero value is usable.
type Config struct {
	// Actor says who asks; it goes into the change records.
	Actor string
	// HTTP does the requests; if nil, a client that waits 5 minutes at most.
	HTTP *http.Client
}

// New makes a client of the server at endpoint, such as http://127.0.0.1:7700.
// It connects to nothing yet.
func New(endpoint, token string, o Config) (*Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("endpoint %q: a URL such as http://127.0.0.1:7700 is expected", endpoint)
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: 5 * time.Minute}
	}
	return NewClient(strings.TrimSuffix(endpoint, "/"), WithHTTPClient(o.HTTP), WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		if o.Actor != "" {
			r.Header.Set(ActorHeader, o.Actor)
		}
		return nil
	}))
}

// Refusal is the error of what the server refused, or could not do.
type Refusal struct {
	Status  int    // of HTTP
	Code    string // a core.Code
	Field   string // where: a path such as schedule.cron; may be empty
	Value   string // what was given; may be empty
	Message string // what is wrong and what is allowed
}

func (e *Refusal) Error() string {
	switch {
	case e.Field != "" && e.Value != "":
		return fmt.Sprintf("%s: %q: %s", e.Field, e.Value, e.Message)
	case e.Field != "":
		return e.Field + ": " + e.Message
	}
	return e.Message
}

// ErrNoAnswer is the error of a request that reached no server.
var ErrNoAnswer = errors.New("no answer")

// maxAnswer bounds what is read of an answer.
const maxAnswer = 256 << 20

// Decode reads the answer of a method of Client. Its error is *Refusal when the
// server answered one, and wraps ErrNoAnswer when there was no answer.
func Decode[T any](resp *http.Response, err error) (T, error) {
	var v T
	if err != nil {
		if urlErr, ok := errors.AsType[*url.Error](err); ok {
			err = urlErr.Err
		}
		return v, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	defer resp.Body.Close()
	body := io.LimitReader(resp.Body, maxAnswer)
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(body).Decode(&v); err != nil {
			return v, fmt.Errorf("%s answered something else than JSON of this interface: is it a tickring server? (%w)", resp.Request.URL.Host, err)
		}
		return v, nil
	}
	var reply ErrorReply
	if json.NewDecoder(body).Decode(&reply) != nil || reply.Error.Code == "" {
		return v, fmt.Errorf("%s answered %s: is it a tickring server?", resp.Request.URL.Host, resp.Status)
	}
	e := reply.Error
	return v, &Refusal{Status: resp.StatusCode, Code: e.Code, Field: e.Field, Value: e.Value, Message: e.Message}
}
