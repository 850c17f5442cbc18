package core_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
)

func TestEntriesBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.Custom(func(t *rapid.T) core.Entry {
			return core.Entry{Run: core.RunID(rapid.Int64().Draw(t, "run")), Address: rapid.SampledFrom([]string{"", "a", "http://b/"}).Draw(t,
				"address"), Outcome: core.Outcome(rapid.Uint8().Draw(t, "outcome"))}
		})).Draw(t, "entries")
		got, err := core.DecodeEntries(core.EncodeEntries(list))
		if err != nil || !slices.Equal(got, list) {
			t.Fatalf("%v, %v", got, err)
		}
	})
}

func FuzzDecodeEntries(f *testing.F) {
	f.Add([]byte{})
	f.Add(core.EncodeEntries([]core.Entry{{Run: 5, Address: "a", Outcome: core.Left}}))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = core.DecodeEntries(b) })
}
