package access

import (
	"fmt"
	"slices"

	"github.com/tickring/tickring/core"
)

// Role is what somebody may do to the things of an app, each all that the one before may.
type Role string

const (
	Viewer   Role = "viewer"   // sees
	Operator Role = "operator" // triggers, pauses, kills, runs again
	Editor   Role = "editor"   // makes, changes and deletes jobs
	Admin    Role = "admin"    // has every right too
)

// Roles are all of them, the lowest first.
var Roles = []Role{Viewer, Operator, Editor, Admin}

// rank orders roles; -1 is none.
func (r Role) rank() int { return slices.Index(Roles, r) }

// Right is one that no role but admin has by itself.
type Right string

const (
	Scripts   Right = "scripts"   // to say what executors run: a script may do anything there
	Secrets   Right = "secrets"   // to set tokens, and what calls carry
	Addresses Right = "addresses" // to say where to, for an app's token goes there
)

// Rights are all of them.
var Rights = []Right{Scripts, Secrets, Addresses}

// Grant is a role for one app, or for all and what is of no app.
type Grant struct {
	App    string  `json:"app,omitempty"` // empty: all
	Role   Role    `json:"role"`
	Rights []Right `json:"rights,omitempty"`
}

// MaxGrants bounds those of a person, and of a token.
const MaxGrants = 100

// covers reports whether a grant is for an app; "" asks for all.
func (g *Grant) covers(app string) bool { return g.App == "" || app != "" && g.App == app }

// checkGrants refuses grants that break a bound. What it answers is in order.
func checkGrants(field string, list []Grant) ([]Grant, error) {
	if len(list) > MaxGrants {
		return nil, core.Invalid(field, fmt.Sprint(len(list)), "at most %d are allowed", MaxGrants)
	}
	out := make([]Grant, 0, len(list))
	for i, g := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		if g.App != "" {
			if err := core.CheckAppName(at+".app", g.App); err != nil {
				return nil, err
			}
		}
		if g.Role.rank() < 0 {
			return nil, core.Invalid(at+".role", string(g.Role), "allowed values: %s", core.Words(Roles))
		}
		for _, r := range g.Rights {
			if !slices.Contains(Rights, r) {
				return nil, core.Invalid(at+".rights", string(r), "allowed values: %s", core.Words(Rights))
			}
		}
		if slices.ContainsFunc(out, func(o Grant) bool { return o.App == g.App }) {
			return nil, core.Invalid(at+".app", g.App, "named twice")
		}
		rights := slices.Clone(g.Rights)
		slices.Sort(rights)
		g.Rights = slices.Compact(rights)
		out = append(out, g)
	}
	return out, nil
}
