package store

import "github.com/tickring/tickring/core"

// A pause and earlier pauses as they are stored: each time is in milliseconds.
type (
	storedPause struct {
		From int64  `json:"from,omitempty"`
		To   int64  `json:"to,omitempty"`
		By   string `json:"by,omitempty"`
		Why  string `json:"why,omitempty"`
	}
	storedPast struct {
		Pauses [][2]int64 `json:"pauses,omitempty"` // From and To of each
		From   int64      `json:"from,omitempty"`
	}
)

func encodePause(p core.Pause) storedPause {
	return storedPause{From: core.Millis(p.From), To: core.Millis(p.To), By: p.By, Why: p.Why}
}

func (p storedPause) decode() core.Pause {
	return core.Pause{From: core.FromMillis(p.From), To: core.FromMillis(p.To), By: p.By, Why: p.Why}
}

func encodePast(p core.PauseHistory) (v storedPast) {
	v.From = core.Millis(p.From)
	for _, x := range p.Pauses {
		v.Pauses = append(v.Pauses, [2]int64{core.Millis(x.From), core.Millis(x.To)})
	}
	return v
}

func (p storedPast) decode() (past core.PauseHistory) {
	past.From = core.FromMillis(p.From)
	for _, x := range p.Pauses {
		past.Pauses = append(past.Pauses, core.Pause{From: core.FromMillis(x[0]), To: core.FromMillis(x[1])})
	}
	return past
}
