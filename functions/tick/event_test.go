package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

func TestReadEvent(t *testing.T) {
	schedule, err := os.ReadFile("testdata/schedule.json")
	check.OK(t, err)
	texts := golden.New(t)
	for name, c := range map[string]struct {
		raw  string
		want event
		bad  bool
	}{
		"of the schedule":  {raw: string(schedule)},
		"of another tick":  {raw: `{"round":1795000000123,"skip":3}`, want: event{1795000000123, 3}},
		"of an older one":  {raw: `{"chain":3}`},
		"by hand, nothing": {raw: ""},
		"by hand, null":    {raw: "null"},
		"not JSON":         {raw: `{"skip":`, bad: true},
		"a list":           {raw: `[1]`, bad: true},
		"a text":           {raw: `{"skip":"3"}`, bad: true},
		"below":            {raw: `{"skip":-1}`, bad: true},
		"beyond":           {raw: `{"skip":257}`, bad: true},
		"before all time":  {raw: `{"round":-1}`, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := readEvent(json.RawMessage(c.raw))
			if c.bad {
				text, _, _ := strings.Cut(fmt.Sprint(err), " into Go ")
				texts.Equal(t, name, text)
				return
			}
			if err != nil || e != c.want {
				t.Errorf("%+v, %v; want %+v", e, err, c.want)
			}
			if again, err := readEvent(encode(e.wake())); err != nil || again != c.want {
				t.Errorf("its message to another is read as %+v, %v", again, err)
			}
		})
	}
}
