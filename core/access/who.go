package access

import (
	"net"
	"slices"

	"github.com/tickring/tickring/core"
)

// Kind is the kind of credential that identifies a caller.
type Kind int

const (
	Nobody      Kind = iota
	Code             // code of an app, by the token that its executors send
	AdminToken       // a machine with all permissions
	ReadToken        // a machine that can read everything
	Person           // a user with a session
	PersonToken      // a program of a user, with a token
)

// Who identifies a caller; the zero Who is not authenticated.
type Who struct {
	Kind Kind
	// Name is the author in change records.
	Name   string
	Grants []Grant // grants of a token's owner
	// Within narrows the grants of a token; nil: it has all of its owner's.
	Within []Grant
	// App is the app of a caller of kind Code.
	App string
	// Session and Token identify the session, or the token, within the account.
	Session, Token string
	// Origin is the address of the caller, without a port.
	From string
	// MustChange reports whether another user set the password; the caller must change it first.
	MustChange bool
}

// The authors of changes by machines.
const (
	ByAdminToken = "admin-token"
	ByReadToken  = "read-token"
	byCode       = "code-of-"
)

// ByMachine returns the caller with the admin token, or with the read-only token.
func ByMachine(admin bool) Who {
	if admin {
		return Who{Kind: AdminToken, Name: ByAdminToken, Grants: []Grant{{Role: Admin}}}
	}
	return Who{Kind: ReadToken, Name: ByReadToken, Grants: []Grant{{Role: Viewer}}}
}

// CodeOf returns the caller that is the code of an app.
func CodeOf(app string) Who { return Who{Kind: Code, Name: byCode + app, App: app} }

// Actor returns the author of the caller's changes.
func (w Who) Actor() core.Actor {
	a := core.Actor{Name: w.Name, From: clip(w.From, maxFrom)}
	switch w.Kind {
	case Person:
		a.Via = core.BySession
	case PersonToken:
		a.Via = core.ByToken(w.Token)
	}
	return a
}

// Host returns the address of HOST:PORT without its port.
func Host(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// IsPerson reports whether the caller has an account.
func (w Who) IsPerson() bool { return w.Kind == Person || w.Kind == PersonToken }

// Deed is an action on an app or, without an app, on everything.
type Deed string

const (
	Open       Deed = "open"       // needs no token
	Known      Deed = "known"      // any authenticated caller
	Enter      Deed = "enter"      // any caller with a role
	See        Deed = "see"        // reads
	Operate    Deed = "operate"    // triggers, pauses, resumes, kills, cancels, runs again
	Direct     Deed = "direct"     // like Operate, at addresses that the caller gives
	Edit       Deed = "edit"       // creates, changes and deletes jobs, and settings of an app
	Declare    Deed = "declare"    // changes a job that an app's code declares
	Script     Deed = "script"     // gives executors a script, which can do anything there
	Secret     Deed = "secret"     // sets a token, or the headers of a call
	Address    Deed = "address"    // sets the executor addresses of an app
	Administer Deed = "administer" // users, restores, and everything outside apps
	Own        Deed = "own"        // changes the caller's own account
	OwnSee     Deed = "own-see"    // reads the caller's own account
)

// need is the role and the right that an action requires.
type need struct {
	role  Role
	right Right // in addition to the role; empty: none
}

var needs = map[Deed]need{
	See:        {Viewer, ""},
	Operate:    {Operator, ""},
	Direct:     {Operator, Addresses},
	Edit:       {Editor, ""},
	Declare:    {Editor, ""},
	Script:     {Editor, Scripts},
	Secret:     {Editor, Secrets},
	Address:    {Editor, Addresses},
	Administer: {Admin, ""},
}

// Deeds lists all actions.
var Deeds = []Deed{Open, Known, Enter, See, Operate, Direct, Edit, Declare, Script, Secret, Address, Administer, Own, OwnSee}

// roleIn returns the highest role in grants for an app; "" means all apps.
func roleIn(grants []Grant, app string) (best Role) {
	for i := range grants {
		if g := &grants[i]; g.covers(app) && g.Role.rank() > best.rank() {
			best = g.Role
		}
	}
	return best
}

// Role returns the caller's role for an app, empty if there is none; "" means all apps.
func (w Who) Role(app string) Role {
	role := roleIn(w.Grants, app)
	if w.Within != nil {
		if in := roleIn(w.Within, app); in.rank() < role.rank() {
			role = in
		}
	}
	return role
}

// has reports whether the caller has a right for an app, which its role does not include.
func (w Who) has(r Right, app string) bool {
	within := func(grants []Grant) bool {
		return roleIn(grants, app) == Admin || slices.ContainsFunc(grants, func(g Grant) bool {
			return g.covers(app) && slices.Contains(g.Rights, r)
		})
	}
	return within(w.Grants) && (w.Within == nil || within(w.Within))
}

// Sees reports whether the caller can see an app and everything in it; "" means all apps.
func (w Who) Sees(app string) bool { return w.Role(app) != "" }

// SeesAll reports whether the caller can see all apps.
func (w Who) SeesAll() bool { return w.Sees("") }

// Apps returns the apps that the caller can see, sorted; all: the caller can see every app.
func (w Who) Apps() (apps []string, all bool) {
	if w.SeesAll() {
		return nil, true
	}
	for _, g := range slices.Concat(w.Grants, w.Within) {
		if g.App != "" && w.Sees(g.App) {
			apps = append(apps, g.App)
		}
	}
	slices.Sort(apps)
	return slices.Compact(apps), false
}

// Filter returns Sees for a list, or nil if the caller can see all apps.
func (w Who) Filter() func(app string) bool {
	if w.SeesAll() {
		return nil
	}
	return w.Sees
}

// May returns nil if the caller may take an action on an app, otherwise the reason; "" means all apps. Every permission
// check calls May. An app that the caller cannot see is reported as missing, whether it exists or not.
func (w Who) May(d Deed, app string) error {
	n, known := needs[d]
	switch {
	case d == Open:
		return nil
	case w.Kind == Nobody:
		return nobody(d)
	case d == Known:
		return nil
	case d == Own || d == OwnSee:
		return w.mayOwn(d)
	case w.MustChange:
		return errMustChange
	case w.Kind == Code:
		return w.codeMay(d, app)
	case d == Enter:
		if apps, all := w.Apps(); all || len(apps) > 0 {
			return nil
		}
		return core.Errorf(core.CodeForbidden, "%s has no role: an admin must assign one", w.Name)
	case !known:
		return core.Errorf(core.CodeForbidden, "no user is allowed to do this")
	case app != "" && !w.Sees(app):
		return NoApp(app)
	}
	switch role := w.Role(app); {
	case w.Kind == ReadToken && n.role != Viewer:
		return core.Errorf(core.CodeForbidden, "this token is read-only: changes need the admin token or a user's token")
	case role.rank() < n.role.rank() && app == "":
		return core.Errorf(core.CodeForbidden, "%s needs the role %q for all apps", w.Name, n.role)
	case role.rank() < n.role.rank():
		return core.Errorf(core.CodeForbidden, "the role %s for app %s is required, but %s has the role %s", n.role, app, w.Name, role)
	case n.right != "" && !w.has(n.right, app) && app == "":
		return core.Errorf(core.CodeForbidden, "%s needs the permission %q for all apps", w.Name, n.right)
	case n.right != "" && !w.has(n.right, app):
		return core.Errorf(core.CodeForbidden, "%s needs the permission %q for app %s", w.Name, n.right, app)
	}
	return nil
}

// MaySome reports whether the caller may take an action on all apps, or on at least one.
func (w Who) MaySome(d Deed) bool {
	return w.May(d, "") == nil || slices.ContainsFunc(slices.Concat(w.Grants, w.Within), func(g Grant) bool { return w.May(d, g.App) == nil })
}

var errMustChange = core.Errorf(core.CodeForbidden, "your password was set by another user: change it first")

// NoApp is the error for an app that the caller cannot see; it does not reveal whether the app exists.
func NoApp(app string) error {
	return core.Errorf(core.CodeNotFound, "app %s does not exist, or you cannot see it", app)
}

func nobody(d Deed) error {
	if d == Declare {
		return core.Errorf(core.CodeUnauthorized, "the token is missing or wrong: send the header `Authorization: Bearer "+
			"TOKEN` with the admin token or a user's token; to declare a job, use the token of its app")
	}
	return core.Errorf(core.CodeUnauthorized, "the token is missing or wrong: send the header `Authorization: Bearer TOKEN`")
}

// codeMay implements May for the code of an app.
func (w Who) codeMay(d Deed, app string) error {
	switch {
	case d == Declare && w.App == app:
		return nil
	case d == Script:
		return core.Errorf(core.CodeForbidden, "this is the token of app %s: scripts need the admin token, because a script can do anything "+
			"on the app's executors", w.App)
	}
	return core.Errorf(core.CodeForbidden,
		"this is the token of app %s: code can use this token only to declare jobs of the app (`declared: true`)", w.App)
}

// mayOwn implements May for the caller's own account, which only users have. A token with narrowed grants
// cannot change it.
func (w Who) mayOwn(d Deed) error {
	switch {
	case !w.IsPerson():
		return core.Errorf(core.CodeForbidden, "this operation needs the account of a user, and the token of a machine has no "+
			"account")
	case d == Own && w.Within != nil:
		return core.Errorf(core.CodeForbidden, "this token does not have all permissions of %s: use a token with all these "+
			"permissions, or change the account in the console",
			w.Name)
	}
	return nil
}
