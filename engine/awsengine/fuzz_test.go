package awsengine

import (
	"testing"

	"github.com/tickring/tickring/core"
)

func FuzzDecodeEntries(f *testing.F) {
	packed, addresses := encodeEntries([]core.Entry{{Run: 5, Address: "a", Outcome: core.Left}})
	f.Add(packed)
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = decodeEntries(b, addresses) })
}
