package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// logReports has Lambda log a report of each invocation. Its level is INFO, which the stack leaves out.
func (p *proof) logReports(ctx context.Context) error {
	for _, fn := range p.functions() {
		c, err := p.lambda.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &fn})
		if err != nil || c.LoggingConfig == nil {
			return fmt.Errorf("read how %s logs: %w", fn, err)
		}
		c.LoggingConfig.SystemLogLevel = lambdatypes.SystemLogLevelInfo
		if err := p.configure(ctx, &lambda.UpdateFunctionConfigurationInput{FunctionName: &fn, LoggingConfig: c.LoggingConfig}); err != nil {
			return err
		}
	}
	return nil
}

// billed sums the time that Lambda bills for the invocations of a function.
type billed struct {
	function      string
	calls         int
	ms, gbSeconds float64
}

// add adds a report of an invocation.
func (b *billed) add(message string) {
	var line struct {
		Record struct {
			Metrics struct{ BilledDurationMs, MemorySizeMB float64 }
		}
	}
	if m := &line.Record.Metrics; json.Unmarshal([]byte(message), &line) == nil && m.BilledDurationMs > 0 {
		b.calls++
		b.ms += m.BilledDurationMs
		b.gbSeconds += m.BilledDurationMs / 1000 * m.MemorySizeMB / 1024
	}
}

// billed compares the GB-seconds that were billed in [from, to) with those foreseen.
func (p *proof) billed(ctx context.Context, from, to time.Time, foreseen usage) {
	all := p.functions()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b := billed{function: name}
		_, messages, err := p.lines(ctx, all[name], `{ $.type = "platform.report" }`, from, to, 1_000_000)
		if err != nil {
			p.report.fails("billed milliseconds of "+name+" are known", err)
		}
		for _, m := range messages {
			b.add(m)
		}
		p.report.billed = append(p.report.billed, b)
	}
	held, found := judgeBilled(p.report.billed, foreseen)
	p.report.says("functions are billed for the time in docs/reference/aws-cost.md, within three tenths", held, "%s", found)
}

// judgeBilled reports whether the billed time of all functions matches the forecast.
func judgeBilled(all []billed, foreseen usage) (held bool, found string) {
	is, calls := 0.0, 0
	for _, b := range all {
		is += b.gbSeconds
		calls += b.calls
	}
	return calls > 0 && is <= dearer*foreseen.gbSeconds, fmt.Sprintf("%.1f GB-seconds in %d invocations, foreseen %.1f in %.0f",
		is, calls, foreseen.gbSeconds, foreseen.invocations)
}
