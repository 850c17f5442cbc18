package core_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
)

// TestChosenFrom checks that the recorded choice is small, and absent if there was no choice.
func TestChosenFrom(t *testing.T) {
	list := func(n int, form string) (l []string) {
		for i := range n {
			l = append(l, fmt.Sprintf(form, i))
		}
		return l
	}
	for _, route := range core.Routes {
		for _, n := range []int{0, 1, 2, 3, 1000} {
			for _, form := range []string{"http://10.0.0.1:%04d", "a%d", "http://h/?a=1&b=2&c=3&d=4&e=5&f=6&g=%d", strings.Repeat("x", 190) + "%d",
				strings.Repeat("x", 250) + "%d"} {
				l := list(n, form)
				address := "http://10.0.0.9:9999"
				if n > 0 {
					address = l[n-1]
				}
				tries := core.ChosenFrom(route, address, l)
				chooses := map[core.Route]bool{core.RouteLast: true, core.RouteRound: true, core.RouteRandom: true, core.RouteHash: true,
					core.RouteLFU: true, core.RouteLRU: true}[route]
				if want := chooses && n > 1 && len(address) <= 200; (len(tries) == 1) != want {
					t.Fatalf("of %d addresses %s keeps %v", n, route, tries)
				}
				text, err := json.Marshal(tries)
				if err != nil || len(text) > 300 {
					t.Errorf("of %d addresses %q it is %d bytes: %v", n, form, len(text), err)
				}
				if len(tries) == 0 {
					continue
				}
				all := n < 4 && strings.HasPrefix(form, "http://10.")
				if tries[0].Of != n || tries[0].By != route || all && len(tries[0].From) != n {
					t.Errorf("of %d addresses %s keeps %+v", n, route, tries[0])
				}
			}
		}
	}
}
