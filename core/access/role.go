package access

import (
	"fmt"
	"slices"

	"github.com/tickring/tickring/core"
)

// Role is a permission level for an app. Each role includes the permissions of all lower roles.
type Role string

const (
	Viewer   Role = "viewer"   // reads jobs, runs and logs
	Operator Role = "operator" // triggers and pauses jobs, and kills and repeats runs
	Editor   Role = "editor"   // creates, changes and deletes jobs
	Admin    Role = "admin"    // has all permissions, including each Right
)

// Roles lists all roles, the lowest first.
var Roles = []Role{Viewer, Operator, Editor, Admin}

// rank orders roles; -1: no role.
func (r Role) rank() int { return slices.Index(Roles, r) }

// Right is a permission that a grant can add to a role. Role Admin includes each Right, and all other roles include
// none.
type Right string

const (
	Scripts   Right = "scripts"   // sets scripts, which can do anything on the executors
	Secrets   Right = "secrets"   // sets tokens, and the headers of HTTP requests to call: executors
	Addresses Right = "addresses" // sets executor addresses, which receive the app's token
)

// Rights lists each Right.
var Rights = []Right{Scripts, Secrets, Addresses}

// Grant gives a role for one app, or for all apps. A role for all apps also applies to everything outside apps, such
// as channels.
type Grant struct {
	App    string  `json:"app,omitempty"` // empty: all apps, and everything outside apps
	Role   Role    `json:"role"`
	Rights []Right `json:"rights,omitempty"`
}

// MaxGrants is the maximum number of grants of a user.
const MaxGrants = 100

// covers reports whether a grant is for an app; "" means all apps.
func (g *Grant) covers(app string) bool { return g.App == "" || app != "" && g.App == app }

// checkGrants rejects invalid grants and returns copies with sorted rights.
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
			return nil, core.Invalid(at+".role", string(g.Role), "allowed values: %s", core.JoinAllowed(Roles))
		}
		for _, r := range g.Rights {
			if !slices.Contains(Rights, r) {
				return nil, core.Invalid(at+".rights", string(r), "allowed values: %s", core.JoinAllowed(Rights))
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
