// Package request sends the HTTP requests of executors.
package request

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// NewClient returns a client that follows no redirects: a token goes only to configured servers.
func NewClient(t *http.Transport) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Send sends a request with the headers that are not empty. It returns the status of the answer, and at most limit bytes of its body.
func Send(ctx context.Context, c *http.Client, method, url string, headers map[string]string, body []byte, limit int64) (
	status int, answer []byte, err error,
) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for name, value := range headers {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	if answer, err = io.ReadAll(io.LimitReader(res.Body, limit)); err != nil {
		return 0, nil, fmt.Errorf("read the answer: %w", err)
	}
	return res.StatusCode, answer, nil
}
