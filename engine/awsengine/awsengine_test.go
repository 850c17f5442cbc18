package awsengine_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/engine/awsengine"
	"github.com/tickring/tickring/engine/awsengine/fakeaws"
	"github.com/tickring/tickring/engine/enginetest"
)

// visibility is in whole seconds, as SQS has it.
const visibility = time.Second

// fakes are an engine's clients and its store over them.
type fakes struct {
	db    *fakeaws.DynamoDB
	sqs   *fakeaws.SQS
	store *awsengine.Store
}

func newFakes(t testing.TB, o awsengine.Options) *fakes {
	t.Helper()
	f := &fakes{}
	f.db, f.sqs = fakeaws.New(t.Errorf)
	if o.Names == (awsengine.Names{}) {
		o.Names = fakeaws.Names
	}
	if o.Visibility == 0 {
		o.Visibility = visibility
	}
	var err error
	if f.store, err = awsengine.New(f.db, f.sqs, o); err != nil {
		t.Fatal(err)
	}
	return f
}

// weathers are what requests meet in which all that an engine promises still holds.
var weathers = []struct {
	name   string
	change func(*fakes)
}{
	{"fine", func(*fakes) {}},
	{"short pages", func(f *fakes) { f.db.PageItems = 3 }},
	{"a part of each batch is not processed the first time", func(f *fakes) {
		var mu sync.Mutex
		n := map[string]int{}
		part := func(_ context.Context, c fakeaws.Call) fakeaws.Fault {
			mu.Lock()
			defer mu.Unlock()
			if n[c.Op]++; n[c.Op]%2 == 0 {
				return fakeaws.Fault{}
			}
			return fakeaws.Fault{Part: func(i int) bool { return i%2 == 0 }}
		}
		f.db.Faults, f.sqs.Faults = part, part
	}},
	{"the index is up to a second behind", func(f *fakes) {
		d := seeded(3)
		f.db.Lag = func() time.Duration { return d.upTo(time.Second) }
	}},
	{"requests overtake each other", func(f *fakes) {
		d := seeded(4)
		slow := func(context.Context, fakeaws.Call) fakeaws.Fault {
			return fakeaws.Fault{Wait: d.upTo(time.Millisecond)}
		}
		f.db.Faults, f.sqs.Faults = slow, slow
	}},
	{"few messages to a receipt", func(f *fakes) { f.sqs.Faults = always(fakeaws.Fault{Short: 1}, "ReceiveMessage") }},
}

// TestEngine runs enginetest over the fakes in each weather, each case in a
// bubble of its own.
func TestEngine(t *testing.T) {
	for _, w := range weathers {
		h := enginetest.Harness{Visibility: visibility, Coarse: time.Second, Expires: true, Wait: time.Sleep, Patience: 5 * time.Second, Open: func(t *testing.T) *engine.Engine {
			f := newFakes(t, awsengine.Options{})
			f.db.TTL = func() time.Duration { return 0 } // nothing lives a second longer than it says
			w.change(f)
			return f.store.Engine()
		}}
		t.Run(w.name, func(t *testing.T) {
			for _, c := range enginetest.Cases {
				t.Run(c.Name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { c.Run(t, h) })
				})
			}
		})
	}
}

// dice are thrown by many at a time, and the same for a seed.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func seeded(seed uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, 1))} }

func (d *dice) upTo(most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.r.Int64N(int64(most) + 1))
}

// always makes one fault of each request of those operations.
func always(fault fakeaws.Fault, ops ...string) fakeaws.Faults {
	return func(_ context.Context, c fakeaws.Call) fakeaws.Fault {
		for _, op := range ops {
			if op == c.Op {
				return fault
			}
		}
		return fakeaws.Fault{}
	}
}
