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
		raw   string
		chain int
		why   string
	}{
		"of the schedule":  {raw: string(schedule)},
		"of another tick":  {raw: `{"chain":3}`, chain: 3},
		"the last":         {raw: `{"chain":256}`, chain: 256},
		"by hand, nothing": {raw: ""},
		"by hand, null":    {raw: "null"},
		"not JSON":         {raw: `{"chain":`, why: "not a JSON object"},
		"a list":           {raw: `[1]`, why: "not a JSON object"},
		"a text":           {raw: `{"chain":"3"}`, why: "not a JSON object"},
		"below":            {raw: `{"chain":-1}`, why: "chain is -1; 0 to 256"},
		"beyond":           {raw: `{"chain":257}`, why: "chain is 257; 0 to 256"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := readEvent(json.RawMessage(c.raw))
			if c.why != "" {
				if !strings.Contains(fmt.Sprint(err), c.why) {
					t.Errorf("%v; want %q", err, c.why)
				}
				return
			}
			if err != nil || e.Chain != c.chain {
				t.Errorf("chain %d, %v; want %d", e.Chain, err, c.chain)
			}
		})
	}
}
