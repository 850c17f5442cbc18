package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

type healthCmd struct {
	Timeout time.Duration `help:"Maximum time to wait for the response." default:"5s" placeholder:"DURATION"`
}

func (c *healthCmd) Help() string {
	return `The command requests /healthz, which needs no token. Exit code 0: the server plans runs. Exit code 1: the server does not ` +
		`plan runs, or is not reachable. ` +
		`Failing jobs do not change the exit code; 'tickring doctor' reports them.`
}

// healthBytes is the maximum size of a response that is read.
const healthBytes = 64 << 10

func (c *healthCmd) Run(e *Env) error {
	ctx, cancel := context.WithTimeout(e.Ctx, c.Timeout)
	defer cancel()
	url, err := e.serverURL()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, healthBytes))
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	var answer struct {
		Status  string `json:"status"`
		Verdict string `json:"verdict,omitempty"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Status == "" {
		return fmt.Errorf("health: %s is not a tickring server: status %d", url, resp.StatusCode)
	}
	return e.result(resp.StatusCode == http.StatusOK, answer, nil, func() {
		text := answer.Status
		if answer.Verdict != "" {
			text += ": " + answer.Verdict
		}
		e.printf("%s\n", text)
	})
}
