// Command canary is the Lambda function that executes the canary job, which each deployment creates for itself. Every
// three minutes, the scheduler sends a run to this function, and the function reports success as an endpoint does. A
// successful run proves that runs are planned and sent. An error means that the function could not deliver a result.
// The function uses no other package of tickring.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"
)

// reportWithin bounds one report.
const reportWithin = 10 * time.Second

func main() {
	awslambda.Start(wire(&http.Client{Timeout: reportWithin}))
}

// wire creates the handler.
func wire(client *http.Client) func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, raw json.RawMessage) error {
		var run struct {
			Tickring struct {
				Job       string `json:"job"`
				ReportURL string `json:"reportUrl"`
			} `json:"tickring"`
		}
		if err := json.Unmarshal(raw, &run); err != nil {
			return fmt.Errorf("the event is not a run: %w", err)
		}
		if run.Tickring.ReportURL == "" {
			return errors.New("the event is not a run that can be reported: tickring.reportUrl is missing")
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, run.Tickring.ReportURL,
			bytes.NewReader([]byte(`{"state":"succeeded","message":"alive"}`)))
		if err != nil {
			return fmt.Errorf("report a run of %s: the report URL is invalid", run.Tickring.Job)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return fmt.Errorf("report a run of %s: %w", run.Tickring.Job, err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			b, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
			return fmt.Errorf("report a run of %s: %s: %s", run.Tickring.Job, resp.Status, b)
		}
		return nil
	}
}
