package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// chainLasts is the additional time for which the log of an attempt stays if another attempt follows: the run itself stays
// until the retry chain ends.
const chainLasts = 31 * 24 * time.Hour

type storedLog struct {
	From int    `json:"from,omitempty"`
	Cut  int64  `json:"cut,omitempty"`
	More bool   `json:"more,omitempty"`
	Why  string `json:"why,omitempty"`
}

// logs are kept logs. The version is the time of the log, and the body is JSON with the text behind it.
var logs = store.Table[core.KeptLog]{Kind: "log", Spread: true,
	Name:    func(k *core.KeptLog) string { return k.Run.String() },
	Version: func(k *core.KeptLog) int64 { return core.Millis(k.At) },
	Encode: func(k *core.KeptLog) ([]byte, error) {
		b, err := json.Marshal(storedLog{k.From, k.Cut, k.More, k.Why})
		return append(b, k.Text...), err
	},
	Decode: func(r *store.Record) (core.KeptLog, error) {
		var v storedLog
		d := json.NewDecoder(bytes.NewReader(r.Body))
		err := d.Decode(&v)
		return core.KeptLog{At: core.FromMillis(r.V), From: v.From, Cut: v.Cut, More: v.More, Why: v.Why, Text: r.Body[d.InputOffset():]}, err
	}}

// LogKey identifies the record of a run's kept log, which an engine removes with the run.
func LogKey(run core.RunID) store.Key { return logs.Key(run.String()) }

func (n *Nouns) PutLog(ctx context.Context, run *core.Run, k core.KeptLog) error {
	was := store.Any
	if len(k.Text) == 0 {
		was = store.Absent
	}
	k.Run = run.ID
	w, err := logs.Put(nil, k, was)
	if err != nil {
		return err
	}
	if w.Expires = expires(n.Now(), n.Keep(ctx, run.ID.Job())[0]); !w.Expires.IsZero() && run.Then != 0 {
		w.Expires = w.Expires.Add(chainLasts)
	}
	return n.write(ctx, w)
}

func (n *Nouns) KeptLog(ctx context.Context, run core.RunID) (k core.KeptLog, is bool, err error) {
	values, err := logs.Get(ctx, n.Records, n.Box, run.String())
	if err != nil {
		return k, false, err
	}
	v, is := values[run.String()]
	v.Is.Run = run
	return v.Is, is, unread(logs, &v)
}
