package ratelog

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// However often an event happens, its message is written a bounded number of times. Suppressed
// messages are counted, and no other message is delayed.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := Of(slog.New(slog.NewJSONHandler(&out, nil)))
		lines := func(text string) int { return strings.Count(out.String(), text) }
		for i := range 1000 {
			log.With("n", i).WithGroup("g").Warn("refused", "i", i)
			log.Info("seen")
		}
		log.Error("another")
		if lines(`"msg":"refused"`) != Most || lines(`"msg":"seen"`) != 1000 || lines(`"msg":"another"`) != 1 || lines("not shown until") != 1 {
			t.Errorf("%d, %d, %d lines", lines("refused"), lines("seen"), lines("another"))
		}
		for i := range 1000 {
			log.Warn("failed", "run", i, "app", "a")
		}
		log.Warn("failed", "app", "b")
		if lines(`"msg":"failed"`) != Most+1 || lines(`"app":"b"`) != 1 {
			t.Errorf("%d lines of two apps, %d of the quiet one", lines(`"msg":"failed"`), lines(`"app":"b"`))
		}
		time.Sleep(time.Minute)
		out.Reset()
		log.Warn("refused")
		log.Warn("refused")
		if lines(`"missed":940`) != 1 || lines("refused") != 2 {
			t.Errorf("after a minute: %s", out.String())
		}
		for i := range 10_000 {
			log.Warn(fmt.Sprint("message ", i))
		}
		if lines("message") > mostMessages+Most {
			t.Errorf("%d lines of messages that are all different", lines("message"))
		}
	})
}
