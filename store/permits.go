package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/tickring/tickring/core"
)

// keepPermits is how long an item without holders and waiters stays after its last write. Then its version begins at 1 again,
// so the time is longer than any write can take.
const keepPermits = 48 * time.Hour

var permits = Table[core.Permits]{Kind: "permit", Spread: true,
	Name:    func(p *core.Permits) string { return p.Name },
	Version: func(p *core.Permits) int64 { return p.V },
	Encode:  encodePermits, Decode: decodePermits}

func (s *Store) Permits(ctx context.Context, names []string) (map[string]core.Permits, error) {
	return permits.Read(ctx, s, names...)
}

func (s *Store) PutPermits(ctx context.Context, list []core.Permits) []error {
	return permits.SaveAll(ctx, s, list, func(p *core.Permits) (was int64, expires time.Time) {
		if len(p.Holders)+len(p.Queue) == 0 && p.Join == nil {
			expires = s.Now().Add(keepPermits)
		}
		return p.V - 1, expires
	})
}

// encodePermits is compact, because permits are written twice for each run: a hundred waiters fit into one write unit of
// DynamoDB. A Join follows as JSON.
func encodePermits(p *core.Permits) (b []byte, err error) {
	for _, n := range []int{p.Limit, int(p.Second), p.Begun, len(p.Holders), len(p.Queue)} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, h := range p.Holders {
		b = binary.BigEndian.AppendUint64(b, uint64(h.First))
		b = binary.AppendUvarint(b, uint64(core.Millis(h.Until)))
		if p.Second == 0 { // no attempt has a second
			continue
		}
		if b = binary.AppendUvarint(b, uint64(h.Attempt)); h.Attempt > 0 {
			b = binary.AppendVarint(b, int64(p.Second-h.From))
		}
	}
	for _, first := range p.Queue {
		b = binary.BigEndian.AppendUint64(b, uint64(first))
	}
	if p.Join == nil {
		return b, nil
	}
	join, err := json.Marshal(p.Join)
	return append(b, join...), err
}

func decodePermits(r *Record) (core.Permits, error) {
	b, bad := r.Body, false
	skip := func(n int) {
		if bad = bad || n <= 0; !bad {
			b = b[n:]
		}
	}
	number := func() int64 {
		v, n := binary.Uvarint(b)
		skip(n)
		return int64(v)
	}
	run := func() (id core.RunID) {
		if bad = bad || len(b) < 8; !bad {
			id, b = core.RunID(binary.BigEndian.Uint64(b)), b[8:]
		}
		return id
	}
	p := core.Permits{Name: r.Name, V: r.V, Limit: int(number()), Second: core.Instant(number()), Begun: int(number())}
	holders, waiting := number(), number()
	for ; holders > 0 && !bad; holders-- {
		h := core.Holder{First: run(), Until: core.FromMillis(number())}
		if p.Second != 0 {
			if h.Attempt = int(number()); h.Attempt > 0 {
				before, n := binary.Varint(b)
				skip(n)
				h.From = p.Second - core.Instant(before)
			}
		}
		p.Holders = append(p.Holders, h)
	}
	for ; waiting > 0 && !bad; waiting-- {
		p.Queue = append(p.Queue, run())
	}
	var err error
	switch {
	case bad:
		err = errors.New("the item is damaged")
	case len(b) > 0:
		err = json.Unmarshal(b, &p.Join)
	}
	return p, err
}
