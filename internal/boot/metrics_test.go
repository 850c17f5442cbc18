package boot

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/refusal"
)

// A line is what CloudWatch takes for metrics, and there is none while all is well.
func TestMetrics(t *testing.T) {
	var out bytes.Buffer
	now := time.UnixMilli(1_795_000_000_123)
	m := NewMetrics("Tickring-Scheduler", &out)
	m.Put(now, map[string]float64{Recovered: 0, DueLag: 0})
	NewMetrics("", &out).Put(now, map[string]float64{Recovered: 1})
	if out.Len() > 0 {
		t.Errorf("written for nothing: %s", out.String())
	}
	m.Put(now, map[string]float64{Recovered: 0, DueLag: 181.5})
	var line struct {
		AWS struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
		Scheduler string
		DueLag    float64
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
		t.Fatalf("%v: %s", err, out.String())
	}
	d := line.AWS.CloudWatchMetrics[0]
	if line.AWS.Timestamp != now.UnixMilli() || d.Namespace != "Tickring" || d.Dimensions[0][0] != "Scheduler" ||
		line.Scheduler != "Tickring-Scheduler" ||
		len(d.Metrics) != 1 || d.Metrics[0].Name != "DueLag" || d.Metrics[0].Unit != "Seconds" || line.DueLag != 181.5 {
		t.Errorf("%s", out.String())
	}
}

// Each metric costs: there are few, and each has its unit.
func TestFewMetrics(t *testing.T) {
	if len(units) > 9 {
		t.Errorf("%d metrics; at most 9 are allowed", len(units))
	}
}

// Strangers write no line of metrics for each request.
func TestRefusalsAreToldTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		trace := NewMetrics("prod", &out).Trace(slog.New(slog.DiscardHandler))
		for range 1000 { // in 20 s
			trace.Note(t.Context(), refusal.Refusal{Door: refusal.Callback, Reason: refusal.Token, Remote: "10.0.0.1:1"})
			time.Sleep(20 * time.Millisecond)
		}
		if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), `"Refused":1,`) ||
			!strings.Contains(out.String(), `"Refused":500,`) {
			t.Errorf("%d lines: %s", n, &out)
		}
	})
}
