package store

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
)

// chainLasts is the additional time for which the log of an attempt stays if another attempt follows: the run itself stays
// until the retry chain ends.
const chainLasts = 31 * 24 * time.Hour

// logs are kept logs. The version is the time of the log.
var logs = Table[core.KeptLog]{Kind: "log", Spread: true,
	Name:    func(k *core.KeptLog) string { return k.Run.String() },
	Version: func(k *core.KeptLog) int64 { return core.Millis(k.At) },
	Encode: func(k *core.KeptLog) ([]byte, error) {
		head := *k
		head.Text = nil
		return EncodeHead(head, k.Text)
	},
	Decode: func(r *Record) (k core.KeptLog, err error) {
		k.Text, err = DecodeHead(r.Body, &k)
		return k, err
	}}

// LogKey identifies the record of a run's kept log, which an engine removes with the run.
func LogKey(run core.RunID) Key { return logs.Key(run.String()) }

func (s *Store) PutLog(ctx context.Context, run *core.Run, k core.KeptLog) error {
	was := Any
	if len(k.Text) == 0 {
		was = Absent
	}
	k.Run, k.At = run.ID, core.FromMillis(core.Millis(k.At))
	w, err := logs.Put(nil, k, was)
	if err != nil {
		return err
	}
	if w.Expires = expires(s.Now(), s.Keep(ctx, run.ID.Job())[0]); !w.Expires.IsZero() && run.Then != 0 {
		w.Expires = w.Expires.Add(chainLasts)
	}
	return s.Write(ctx, w)
}

func (s *Store) KeptLog(ctx context.Context, run core.RunID) (k core.KeptLog, is bool, err error) {
	values, err := logs.Get(ctx, s, run.String())
	if err != nil {
		return k, false, err
	}
	v, is := values[run.String()]
	return v.Is, is, logs.usable(&v)
}
