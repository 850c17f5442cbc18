package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// hook is a webhook that records the notifications it receives.
type hook struct {
	*httptest.Server
	mu   sync.Mutex
	told []told
	came chan struct{}
}

type told struct {
	at    time.Time
	Event string `json:"event"`
	Job   struct {
		Name string `json:"name"`
	} `json:"job"`
	Run struct {
		ID string `json:"id"`
	} `json:"run"`
	Count int `json:"count"`
	body  string
}

func newHook(t *testing.T) *hook {
	h := &hook{came: make(chan struct{}, 10_000)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		x := told{at: time.Now(), body: string(b)}
		if err := json.Unmarshal(b, &x); err != nil {
			t.Errorf("a webhook was sent %q: %v", b, err)
		}
		h.mu.Lock()
		h.told = append(h.told, x)
		h.mu.Unlock()
		h.came <- struct{}{}
	}))
	t.Cleanup(h.Close)
	return h
}

// wait waits until n notifications have arrived in all, and returns them.
func (h *hook) wait(t *testing.T, n int, within time.Duration) []told {
	t.Helper()
	end := time.After(within)
	for {
		h.mu.Lock()
		list := slices.Clone(h.told)
		h.mu.Unlock()
		if len(list) >= n {
			return list
		}
		select {
		case <-h.came:
		case <-end:
			t.Fatalf("%d of %d notices came in %s, first %+v", len(list), n, within, list[:min(3, len(list))])
		}
	}
}

func channel(t *testing.T, s *running, name, url string) {
	t.Helper()
	check.Call(t)(s.Manage().SaveChannel(t.Context(), actor, manage.ChannelSpec{Channel: core.Channel{Name: name, Kind: core.ChannelWebhook,
		URL: url}}))
}

func saveAll(t *testing.T, s *running, specs ...manage.JobSpec) {
	t.Helper()
	for _, r := range s.Manage().Save(t.Context(), actor, specs) {
		check.OK(t, r.Err)
	}
}

// TestNotificationsDropped: if a channel rejects notifications, doctor, the metrics, and the pages of the channel and the job report it
// until the channel accepts one.
func TestNotificationsDropped(t *testing.T) {
	texts := golden.New(t)
	t.Parallel()
	gone := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such hook", http.StatusGone)
	})
	h := newHook(t)
	s := start(t, Options{LookEvery: 100 * time.Millisecond})
	channel(t, s, "oncall", gone.URL)
	app := manage.AppSpec{Name: "shop", Notify: core.Notify{To: []string{"oncall"}}}
	check.Call(t)(s.Manage().SaveApp(t.Context(), actor, app))
	saveAll(t, s, manage.JobSpec{Def: core.Def{App: "shop", Name: "one", Handler: "one"}},
		manage.JobSpec{Def: core.Def{App: "shop", Name: "two", Handler: "two"}})
	c := s.client(t)
	says := func() string {
		t.Helper()
		list, _ := s.findings(t)
		return findingsWith(list, "channel", "notifications dropped")
	}
	texts.Equal(t, "healthy", says())
	s.trigger(t, "shop/one") // for it has no executor
	eventually(t, time.Minute, s.counted(t, `tickring_notifications_total{outcome="given-up"} 1`))
	eventually(t, time.Minute, func() error {
		ch, err := c.GetChannel(t.Context(), "oncall")
		if err != nil || ch.Trouble == nil || ch.Trouble.GivenUp != 1 || !strings.Contains(ch.Trouble.Error, "410 Gone") ||
			ch.Trouble.Since.IsZero() {
			return fmt.Errorf("the channel is %+v, %w", ch, err)
		}
		return nil
	})
	if list, err := c.ListChannels(t.Context()); err != nil || len(list.Channels) != 1 || list.Channels[0].Trouble == nil {
		t.Errorf("channels are %+v, %v", list, err)
	}
	texts.Equal(t, "in trouble", says(), gone.Listener.Addr().String(), "HOST")
	job, err := c.GetJob(t.Context(), "shop", "one")
	if err != nil || job.Notifications == nil || len(job.Notifications.Sent) != 1 || job.Notifications.Sent[0].Event != "no-executor" ||
		!job.Notifications.Sent[0].QuietUntil.After(time.Now()) {
		t.Errorf("the job is %+v, %v", job.Notifications, err)
	}
	now, is, err := s.Manage().FindChannel(t.Context(), "oncall")
	if err != nil || !is {
		t.Fatal(err)
	}
	now.URL = h.URL
	check.Call(t)(s.Manage().SaveChannel(t.Context(), actor, manage.ChannelSpec{Channel: now}))
	s.trigger(t, "shop/two")
	list := h.wait(t, 1, 20*time.Second)
	if x := list[0]; x.Event != "no-executor" || !strings.Contains(x.body, `"link":"`+s.URL()+`/console/runs/`+x.Run.ID+`"`) {
		t.Errorf("told was %s", x.body)
	}
	eventually(t, time.Minute, s.counted(t, `tickring_notifications_total{outcome="sent"} 1`))
	eventually(t, time.Minute, func() error {
		if text := says(); strings.Contains(text, "oncall") {
			return fmt.Errorf("doctor still reports %s", text)
		}
		return nil
	})
}
