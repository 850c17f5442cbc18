// Command plain is an AWS Lambda function that does not use tickring's SDK. The function reports payments to a server,
// and fails if the account does not exist.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
)

func main() { lambda.Start(pay) }

func pay(ctx context.Context, event json.RawMessage) (map[string]int, error) {
	var e struct {
		Account string `json:"executorParams"`
	}
	if err := json.Unmarshal(event, &e); err != nil {
		return nil, fmt.Errorf("read the event: %w", err)
	}
	if e.Account == "bad" {
		return nil, errors.New("no such account")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("BOOKS"), bytes.NewReader(event))
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	resp.Body.Close()
	return map[string]int{"paid": 3}, nil
}
