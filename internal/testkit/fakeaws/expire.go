package fakeaws

import (
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// expiring is the attribute by which the tables forget: seconds since 1970.
const expiring = "expires"

// expiry is one item to remove, unless its time is changed until then.
type expiry struct {
	due  time.Time
	says int64 // as its attribute had it
	t    *table
	of   place
}

// saysExpires returns the expiry time of an item; false if it has none.
func saysExpires(it item) (int64, bool) {
	if n, ok := it[expiring].(*types.AttributeValueMemberN); ok {
		return intOf(n), true
	}
	return 0, false
}

// watchExpiry records when an item must be removed, if that is new.
func (d *DynamoDB) watchExpiry(w *write, was, is item) {
	if d.TTL == nil {
		return
	}
	says, has := saysExpires(is)
	if old, had := saysExpires(was); !has || had && old == says {
		return
	}
	x := expiry{due: time.Unix(says, 0).Add(d.TTL()), says: says, t: w.table, of: w.at}
	i, _ := slices.BinarySearchFunc(d.expiries, x, func(a, b expiry) int { return a.due.Compare(b.due) })
	d.expiries = slices.Insert(d.expiries, i, x)
}

// expire removes due items. An item whose time has changed or is gone stays.
func (d *DynamoDB) expire(now time.Time) {
	for len(d.expiries) > 0 && !d.expiries[0].due.After(now) {
		x := d.expiries[0]
		d.expiries = d.expiries[1:]
		e := x.t.get(x.of)
		if e == nil {
			continue
		}
		if says, has := saysExpires(e.it); has && says == x.says {
			x.t.put(x.of, nil, now, d.lag())
		}
	}
}

// lock locks the tables and removes expired items.
func (d *DynamoDB) lock() {
	d.mu.Lock()
	d.expire(time.Now())
}
