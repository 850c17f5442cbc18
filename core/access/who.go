package access

import (
	"net"
	"slices"

	"github.com/tickring/tickring/core"
)

// Kind is the kind of credential with which a caller is identified.
type Kind int

const (
	Nobody      Kind = iota
	Code             // the code of an app, with the app's token
	AdminToken       // a machine with the admin token, which has all permissions
	ReadToken        // a machine with the read-only token, which can read everything
	Person           // a user with a login session
	PersonToken      // a program with a user's token
)

// Who identifies a caller and its permissions. The zero Who is a caller without a valid credential.
type Who struct {
	Kind Kind
	// Name is the caller's name as the author of changes in change records.
	Name   string
	Grants []Grant // grants of the user; for a token, grants of the token's owner
	// Within limits the permissions of a token to these grants; nil: the token has all permissions of its owner.
	Within []Grant
	// App is the app of a caller with Kind Code.
	App string
	// Session is the ID of the session, and Token is the name of the token. At most one of the two is set.
	Session, Token string
	// From is the address of the caller, without a port.
	From string
	// MustChange is true if another user set the password. Then the caller must first change the password.
	MustChange bool
}

// Names of machines as authors of changes.
const (
	ByAdminToken = "admin-token"
	ByReadToken  = "read-token"
	byCode       = "code-of-"
)

// ByMachine returns the Who of the admin token or, if admin is false, of the read-only token.
func ByMachine(admin bool) Who {
	if admin {
		return Who{Kind: AdminToken, Name: ByAdminToken, Grants: []Grant{{Role: Admin}}}
	}
	return Who{Kind: ReadToken, Name: ByReadToken, Grants: []Grant{{Role: Viewer}}}
}

// CodeOf returns the Who of the code of an app.
func CodeOf(app string) Who { return Who{Kind: Code, Name: byCode + app, App: app} }

// Actor returns the caller as the author of changes.
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

// Host removes the port from HOST:PORT.
func Host(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// IsPerson reports whether the caller is a user with an account.
func (w Who) IsPerson() bool { return w.Kind == Person || w.Kind == PersonToken }

// Deed is a kind of action that requires a permission.
type Deed string

const (
	Open       Deed = "open"       // needs no credential
	Known      Deed = "known"      // allowed for each caller with a valid credential
	Enter      Deed = "enter"      // allowed for each caller with a role
	See        Deed = "see"        // reads jobs, runs and logs
	Operate    Deed = "operate"    // triggers, pauses and resumes jobs, and kills, cancels and repeats runs
	Direct     Deed = "direct"     // triggers runs at executor addresses that the caller sets
	Edit       Deed = "edit"       // creates, changes and deletes jobs, and changes settings of an app
	Declare    Deed = "declare"    // declares a job, as an app's code does
	Script     Deed = "script"     // sets a script, which can do anything on the executors
	Secret     Deed = "secret"     // sets a token, or the headers of HTTP requests to call: executors
	Address    Deed = "address"    // sets the executor addresses of an app
	Administer Deed = "administer" // manages users, restores, and everything outside apps
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

// Deeds lists each Deed.
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

// Role returns the caller's role for an app, or for all apps if app is "". The result is empty if the caller has no
// role.
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

// Sees reports whether the caller can see an app and its jobs or, if app is "", all apps.
func (w Who) Sees(app string) bool { return w.Role(app) != "" }

// SeesAll reports whether the caller can see all apps.
func (w Who) SeesAll() bool { return w.Sees("") }

// Apps returns the names of the apps that the caller can see, sorted. If the caller can see all apps, all is true and
// the list is empty.
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

// Filter returns w.Sees, or nil if the caller can see all apps.
func (w Who) Filter() func(app string) bool {
	if w.SeesAll() {
		return nil
	}
	return w.Sees
}

// May returns nil if the caller has the permission for an action on an app, otherwise an error. If app is "", the
// caller needs the permission for all apps. Every permission check calls May. For an app that the caller cannot see,
// the error does not reveal whether the app exists.
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
		return core.Errorf(core.CodeForbidden, "%s has no role: an admin must assign a role", w.Name)
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

// MaySome reports whether the caller has the permission for an action on all apps, or on at least one app.
func (w Who) MaySome(d Deed) bool {
	return w.May(d, "") == nil || slices.ContainsFunc(slices.Concat(w.Grants, w.Within), func(g Grant) bool { return w.May(d, g.App) == nil })
}

var errMustChange = core.Errorf(core.CodeForbidden, "your password was set by another user: change it first")

// NoApp returns the error for an app that the caller cannot see. The error does not reveal whether the app exists.
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
