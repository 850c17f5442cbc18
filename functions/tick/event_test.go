package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestReadEvent(t *testing.T) {
	schedule, err := os.ReadFile("testdata/schedule.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		raw  string
		want event
		why  string
	}{
		"of the schedule":  {raw: string(schedule)},
		"of another tick":  {raw: `{"round":1795000000123,"skip":3}`, want: event{1795000000123, 3}},
		"of an older one":  {raw: `{"chain":3}`},
		"by hand, nothing": {raw: ""},
		"by hand, null":    {raw: "null"},
		"not JSON":         {raw: `{"skip":`, why: "not a JSON object"},
		"a list":           {raw: `[1]`, why: "not a JSON object"},
		"a text":           {raw: `{"skip":"3"}`, why: "not a JSON object"},
		"below":            {raw: `{"skip":-1}`, why: "skip: -1; allowed values: 0 to 256"},
		"beyond":           {raw: `{"skip":257}`, why: "skip: 257; allowed values: 0 to 256"},
		"before all time":  {raw: `{"round":-1}`, why: "round: -1"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := readEvent(json.RawMessage(c.raw))
			if c.why != "" {
				if !strings.Contains(fmt.Sprint(err), c.why) {
					t.Errorf("%v; want %q", err, c.why)
				}
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
