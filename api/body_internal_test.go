package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/fairsem"
)

// TestLongBodiesAreFew: the server holds few long bodies at once for callers without an admin token, and half of them
// at most for one caller. Others get an error that asks to retry. Short bodies and an admin's never wait.
func TestLongBodiesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := fairsem.New(longPlaces)
		read := func(c caller, body io.Reader) (time.Duration, error) {
			r := httptest.NewRequest(http.MethodPut, "/v1/jobs/a/b", body)
			began := time.Now()
			_, done, err := readBody(httptest.NewRecorder(), r.WithContext(context.WithValue(t.Context(), callerKey{}, c)), MaxBody)
			done()
			return time.Since(began), err
		}
		long := strings.Repeat("x", longBody+1)
		ofApp := caller{Who: access.CodeOf("a"), long: held}
		ends := make(chan struct{})
		var all sync.WaitGroup
		for range longPlaces / 2 {
			all.Go(func() { read(ofApp, io.MultiReader(strings.NewReader(long), until(ends))) })
		}
		synctest.Wait()
		if took, err := read(ofApp, strings.NewReader(long)); !errors.Is(err, errNoPlace) || took != waitFor {
			t.Errorf("one more: after %v: %v", took, err)
		}
		if took, err := read(caller{Who: access.CodeOf("b"), long: held}, strings.NewReader(long)); err != nil || took != 0 {
			t.Errorf("another app's: after %v: %v", took, err)
		}
		if took, err := read(ofApp, strings.NewReader(long[:longBody-1])); err != nil || took != 0 {
			t.Errorf("a short one: after %v: %v", took, err)
		}
		if took, err := read(caller{Who: access.ByMachine(true)}, strings.NewReader(long)); err != nil || took != 0 {
			t.Errorf("an admin's: after %v: %v", took, err)
		}
		close(ends)
		all.Wait()
		if took, err := read(ofApp, strings.NewReader(long)); err != nil || took != 0 || held.Free() != longPlaces {
			t.Errorf("afterwards: after %v: %v, %d places are free", took, err, held.Free())
		}
	})
}

// until is a body that sends nothing more, and ends when the channel is closed.
type until <-chan struct{}

func (u until) Read([]byte) (int, error) {
	<-u
	return 0, io.EOF
}
