package manifest

import (
	"errors"
	"time"
)

// ParseDuration reads a duration as manifests write it: 500ms 10s 5m 2h 30d,
// or several units, each once and the larger first: 1h30m.
func ParseDuration(text string) (time.Duration, error) { return 0, errors.ErrUnsupported }

// FormatDuration writes a duration so that ParseDuration reads the same, in as
// few units as are exact: 90s is 1m30s, 720h is 30d.
func FormatDuration(d time.Duration) string { return d.String() }
