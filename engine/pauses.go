package engine

import (
	"time"

	"github.com/tickring/tickring/core"
)

// Pauses as they are stored, with times in milliseconds.
type (
	storedPause struct {
		From int64  `json:"from,omitempty" dynamodbav:"from,omitempty"`
		To   int64  `json:"to,omitempty" dynamodbav:"to,omitempty"`
		By   string `json:"by,omitempty" dynamodbav:"by,omitempty"`
		Why  string `json:"why,omitempty" dynamodbav:"why,omitempty"`
	}
	storedPast struct {
		Pauses [][2]int64 `json:"pauses,omitempty"` // from, to
		From   int64      `json:"from,omitempty"`
	}
)

func millis(t time.Time) int64 { return core.Millis(t) }

func fromMillis(ms int64) time.Time { return core.FromMillis(ms) }

func encodePause(p core.Pause) storedPause {
	return storedPause{From: millis(p.From), To: millis(p.To), By: p.By, Why: p.Why}
}

func (p storedPause) decode() core.Pause {
	return core.Pause{From: fromMillis(p.From), To: fromMillis(p.To), By: p.By, Why: p.Why}
}

func encodePast(p core.PauseHistory) *storedPast {
	if len(p.Pauses) == 0 {
		return nil
	}
	v := &storedPast{From: millis(p.From)}
	for _, x := range p.Pauses {
		v.Pauses = append(v.Pauses, [2]int64{millis(x.From), millis(x.To)})
	}
	return v
}

func (p *storedPast) decode() (past core.PauseHistory) {
	if p == nil {
		return past
	}
	past.From = fromMillis(p.From)
	for _, x := range p.Pauses {
		past.Pauses = append(past.Pauses, core.Pause{From: fromMillis(x[0]), To: fromMillis(x[1])})
	}
	return past
}

