package server

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// Tune sets the duration with the given name, for test suites that need short durations.
func (o *Options) Tune(name, value string) error {
	fields := map[string]*time.Duration{}
	for f, v := range reflect.ValueOf(o).Elem().Fields() {
		if d, is := v.Addr().Interface().(*time.Duration); is {
			fields[strings.ToLower(f.Name[:1])+f.Name[1:]] = d
		}
	}
	f, ok := fields[name]
	if !ok {
		return core.Invalid("tune", name, "allowed: %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return core.Invalid("tune."+name, value, "expected a positive duration such as 5s")
	}
	*f = d
	return nil
}
