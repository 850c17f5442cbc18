package api_test

import (
	"testing"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestTroubles: the trouble of a deleted channel is not reported for a newer channel of the same name.
func TestTroubles(t *testing.T) {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	is := func(since, last int) notification.State {
		return notification.State{Trouble: &notification.Trouble{Since: at.Add(time.Duration(since) * time.Hour),
			Last:  at.Add(time.Duration(last) * time.Hour),
			Error: "410 Gone", GivenUp: 2}}
	}
	s := memory.Open(t, memory.Options{})
	for name, st := range map[string]notification.State{"old": is(-3, -1), "both": is(-3, 1), "new": is(1, 2), "well": {}} {
		st.Name, st.V = notification.ChannelName(name), 1
		check.OK(t, notification.PutState(t.Context(), s, st))
	}
	var list []core.Channel
	for _, name := range []string{"old", "both", "new", "well", "unknown"} {
		list = append(list, core.Channel{Name: name, Created: at})
	}
	got, err := api.Troubles(t.Context(), s, list)
	if err != nil || len(got) != 2 || got["both"] == nil || got["new"] == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if !got["both"].Since.Equal(at) || !got["new"].Since.Equal(at.Add(time.Hour)) || got["new"].GivenUp != 2 ||
		got["new"].Error != "410 Gone" {
		t.Errorf("%+v, %+v", got["both"], got["new"])
	}
}
