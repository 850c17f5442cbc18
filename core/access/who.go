package access

import (
	"net"
	"slices"

	"github.com/tickring/tickring/core"
)

// Kind is what somebody is known by.
type Kind int

const (
	Nobody      Kind = iota
	Code             // of an app, by the token that its executors send
	AdminToken       // a machine that may do all
	ReadToken        // a machine that may see all
	Person           // by a session
	PersonToken      // a program of a person, by a token
)

// Who is who asks, as it is known now; the zero Who is nobody.
type Who struct {
	Kind Kind
	// Name is the author of what it changes.
	Name   string
	Grants []Grant // of a token its owner's
	// Within narrows a token further; nil: it does not.
	Within []Grant
	// App is whose code it is.
	App string
	// Session and Token are what it is known by, among its own.
	Session, Token string
	// From is the address that it asks from: Host of its connection's.
	From string
	// MustChange says that it logged in with a password that somebody else gave it: first of all
	// it sets another.
	MustChange bool
}

// The authors of what machines change.
const (
	ByAdminToken = "admin-token"
	ByReadToken  = "read-token"
	byCode       = "code-of-"
)

// ByMachine is who has the admin token, or only that which reads.
func ByMachine(admin bool) Who {
	if admin {
		return Who{Kind: AdminToken, Name: ByAdminToken, Grants: []Grant{{Role: Admin}}}
	}
	return Who{Kind: ReadToken, Name: ByReadToken, Grants: []Grant{{Role: Viewer}}}
}

// CodeOf is the code of an app.
func CodeOf(app string) Who { return Who{Kind: Code, Name: byCode + app, App: app} }

// Actor is the author of what it changes.
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

// Host is the address of a connection's other end, HOST:PORT, without its port.
func Host(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// IsPerson reports whether there is somebody who has an account.
func (w Who) IsPerson() bool { return w.Kind == Person || w.Kind == PersonToken }

// Deed is something that may be done, to an app or (with none) to what is everybody's.
type Deed string

const (
	Open       Deed = "open"       // shows nothing that is not for everybody
	Known      Deed = "known"      // whoever is not nobody
	Enter      Deed = "enter"      // whoever may see anything
	See        Deed = "see"        // shows what there is
	Operate    Deed = "operate"    // triggers, pauses, resumes, kills, cancels, runs again
	Direct     Deed = "direct"     // the same, at addresses given by hand
	Edit       Deed = "edit"       // makes, changes and deletes jobs, and what an app says of them
	Declare    Deed = "declare"    // changes a job that an app's code declares
	Script     Deed = "script"     // gives executors something to run: whatever it says is done there
	Secret     Deed = "secret"     // sets a token, or what a call carries
	Address    Deed = "address"    // says at which addresses an app's executors are
	Administer Deed = "administer" // people, restores, and what reaches beyond apps
	Own        Deed = "own"        // changes one's own account
	OwnSee     Deed = "own-see"    // shows it
)

// need is what a deed takes.
type need struct {
	role  Role
	right Right // besides; empty: none
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

// Deeds are all of them.
var Deeds = []Deed{Open, Known, Enter, See, Operate, Direct, Edit, Declare, Script, Secret, Address, Administer, Own, OwnSee}

// roleIn is the role that grants come to for an app; "" asks for all.
func roleIn(grants []Grant, app string) (best Role) {
	for i := range grants {
		if g := &grants[i]; g.covers(app) && g.Role.rank() > best.rank() {
			best = g.Role
		}
	}
	return best
}

// Role is the role of somebody for an app, empty if he has none; "" asks for all.
func (w Who) Role(app string) Role {
	role := roleIn(w.Grants, app)
	if w.Within != nil {
		if in := roleIn(w.Within, app); in.rank() < role.rank() {
			role = in
		}
	}
	return role
}

// has reports whether somebody has a right for an app besides his role.
func (w Who) has(r Right, app string) bool {
	within := func(grants []Grant) bool {
		return roleIn(grants, app) == Admin || slices.ContainsFunc(grants, func(g Grant) bool {
			return g.covers(app) && slices.Contains(g.Rights, r)
		})
	}
	return within(w.Grants) && (w.Within == nil || within(w.Within))
}

// Sees reports whether somebody may know of an app, and of what is its; "" asks for all.
func (w Who) Sees(app string) bool { return w.Role(app) != "" }

// SeesAll reports whether nothing is hidden.
func (w Who) SeesAll() bool { return w.Sees("") }

// Apps are those that somebody may see, in order; all: he sees each.
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

// Sift is Sees for who lists, nil where nothing is hidden.
func (w Who) Sift() func(app string) bool {
	if w.SeesAll() {
		return nil
	}
	return w.Sees
}

// May says why somebody may not do a deed to an app, or with none to what is of no app or
// of all; nil: he may. It is the one place that knows. What somebody may not see is not
// there for him, whether it is or not.
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
		return core.Errorf(core.CodeForbidden, "the role %s for all apps is required, and %s does not have it", n.role, w.Name)
	case role.rank() < n.role.rank():
		return core.Errorf(core.CodeForbidden, "the role %s for app %s is required, but %s has the role %s", n.role, app, w.Name, role)
	case n.right != "" && !w.has(n.right, app) && app == "":
		return core.Errorf(core.CodeForbidden, "the permission %s for all apps is required, and %s does not have it", n.right, w.Name)
	case n.right != "" && !w.has(n.right, app):
		return core.Errorf(core.CodeForbidden, "the permission %s for app %s is required, and %s does not have it", n.right, app, w.Name)
	}
	return nil
}

// MaySome reports whether somebody may do a deed to all, or to some app.
func (w Who) MaySome(d Deed) bool {
	return w.May(d, "") == nil || slices.ContainsFunc(slices.Concat(w.Grants, w.Within), func(g Grant) bool { return w.May(d, g.App) == nil })
}

var errMustChange = core.Errorf(core.CodeForbidden, "your password was set by another user: change it first")

// NoApp is what whoever may not see an app is told of it: the same whether there is one or not.
func NoApp(app string) error {
	return core.Errorf(core.CodeNotFound, "app %s does not exist, or you cannot see it", app)
}

func nobody(d Deed) error {
	if d == Declare {
		return core.Errorf(core.CodeUnauthorized, "the token is missing or wrong: send the admin token or a user's token, or, to declare a "+
			"job, the token of its app, as Authorization: Bearer TOKEN")
	}
	return core.Errorf(core.CodeUnauthorized, "the token is missing or wrong: send it as Authorization: Bearer TOKEN")
}

// codeMay is May of the code of an app.
func (w Who) codeMay(d Deed, app string) error {
	switch {
	case d == Declare && w.App == app:
		return nil
	case d == Script:
		return core.Errorf(core.CodeForbidden, "this is the token of app %s: scripts need the admin token, because a script can do anything "+
			"on the app's executors", w.App)
	}
	return core.Errorf(core.CodeForbidden,
		"this is the token of app %s: code can use it only to declare jobs of that app (declared: true)", w.App)
}

// mayOwn is May of one's own account, which only people have. A token that is narrowed is
// not all of its owner.
func (w Who) mayOwn(d Deed) error {
	switch {
	case !w.IsPerson():
		return core.Errorf(core.CodeForbidden, "this concerns the account of a user, and the token of a machine has no account")
	case d == Own && w.Within != nil:
		return core.Errorf(core.CodeForbidden, "this token does not have all permissions of %s: use a token that has them, or change the "+
			"account in the console",
			w.Name)
	}
	return nil
}
