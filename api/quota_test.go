package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tickring/tickring/api"
)

// TestDeclaredChangesAreBounded: the token of an app can create or change a limited number of jobs per minute.
// Declarations without a change do not count, and neither do changes by another app or an admin.
func TestDeclaredChangesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no time passes and no quota comes back
		f := newFixture(t)
		f.shop()
		f.must("PUT", "/v1/apps/pay", `{"token":"token-of-pay"}`)
		put := func(token, app, name, more string) (int, string) {
			return f.as(token, "PUT", "/v1/jobs/"+app+"/"+name, `{"handler":"x"`+more+`}`)
		}
		const declared = `,"declared":true`
		for i := range api.DeclaredChanges {
			if status, text := put(appToken, "shop", "fresh", fmt.Sprintf(`%s,"params":"%d"`, declared, i)); status != 200 {
				t.Fatalf("change %d: %d %s", i, status, text)
			}
			if i == 3 {
				for range 2 * api.DeclaredChanges {
					if status, text := put(appToken, "shop", "fresh", declared+`,"params":"3"`); status != 200 || !strings.Contains(text, "unchanged") {
						t.Fatalf("no change: %d %s", status, text)
					}
				}
			}
		}
		for _, name := range []string{"fresh", "fresher"} {
			status, text := put(appToken, "shop", name, declared+`,"params":"more"`)
			if status != 503 || !strings.Contains(text, fmt.Sprint(api.DeclaredChanges)) {
				t.Errorf("one more, of %s: %d %s", name, status, text)
			}
		}
		if status, text := put("token-of-pay", "pay", "fresh", declared); status != 200 {
			t.Errorf("of another app: %d %s", status, text)
		}
		for i := range 2 * api.DeclaredChanges {
			f.must("PUT", "/v1/jobs/shop/other", fmt.Sprintf(`{"handler":"x","params":"%d"}`, i))
		}
	})
}

// TestDeclaredBytesAreBounded: a job of 60 KB counts as 60 changes, because the records of its changes would be 20 GB
// a day. A declaration that changes nothing is free, whatever its size.
func TestDeclaredBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no time passes and no quota comes back
		f := newFixture(t)
		f.shop()
		for i, c := range []struct {
			params string
			want   int
		}{{"a", 200}, {"a", 200}, {"a", 200}, {"b", 200}, {"c", 503}, {"b", 503}} {
			body := `{"handler":"x","declared":true,"params":"` + strings.Repeat(c.params, 60<<10) + `"}`
			if status, text := f.as(appToken, "PUT", "/v1/jobs/shop/fresh", body); status != c.want {
				t.Errorf("%d: %d %s", i, status, text)
			}
		}
	})
}

// TestDeclaredJobsAreBounded: code can create a limited number of jobs in its app; an admin can create more.
func TestDeclaredJobsAreBounded(t *testing.T) {
	f := newFixture(t)
	f.shop()
	const declared = `{"handler":"x","declared":true}`
	for i := range api.DeclaredJobs {
		f.must("PUT", fmt.Sprintf("/v1/jobs/shop/fresh-%d", i), declared)
	}
	status, text := f.as(appToken, "PUT", "/v1/jobs/shop/more", declared)
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(text, "1000 jobs") {
		t.Errorf("one more: %d %s", status, text)
	}
	if status, text := f.as(appToken, "PUT", "/v1/jobs/shop/fresh-1", `{"handler":"y","declared":true}`); status != 200 {
		t.Errorf("a change of an existing one: %d %s", status, text)
	}
	f.must("PUT", "/v1/jobs/shop/another", `{"handler":"x"}`)
	f.must("PUT", "/v1/jobs/shop/yet-another", declared)
}
