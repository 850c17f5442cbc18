package api

import (
	"net/http"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/words"
)

func grantOf(g *access.Grant) client.Grant {
	return client.Grant{App: g.App, Role: string(g.Role), Rights: as[string](g.Rights)}
}

func coreGrant(g *client.Grant) access.Grant {
	return access.Grant{App: g.App, Role: access.Role(g.Role), Rights: as[access.Right](g.Rights)}
}

// FormatGrants formats grants in a short form, such as "viewer shop:editor+scripts".
func FormatGrants(list []client.Grant) string {
	words := make([]string, len(list))
	for i, g := range list {
		if g.App != "" {
			words[i] = g.App + ":"
		}
		words[i] += strings.Join(append([]string{g.Role}, g.Rights...), "+")
	}
	return strings.Join(words, " ")
}

// ParseGrants parses the result of FormatGrants. It does not check the roles and permissions; the server rejects
// unknown names.
func ParseGrants(words []string) []client.Grant {
	list := []client.Grant{}
	for _, w := range words {
		var g client.Grant
		if app, rest, is := strings.Cut(w, ":"); is {
			g.App, w = app, rest
		}
		parts := strings.Split(w, "+")
		g.Role, g.Rights = parts[0], parts[1:]
		list = append(list, g)
	}
	return list
}

func tokenOf(t *access.Token) client.UserToken {
	return client.UserToken{Name: t.Name, Grants: each(t.Grants, grantOf), CreatedAt: t.Created, EndsAt: t.End}
}

func personOf(a *access.Account) client.User {
	return client.User{Name: a.Name, Rev: a.Edited, Disabled: a.Disabled, HasPassword: a.Password != "", MustChange: a.MustChange,
		Issuer: a.Issuer, Subject: a.Subject, Grants: each(a.Grants, grantOf), Sessions: len(a.Sessions), LastSeenAt: a.LastSeen,
		CreatedAt: a.Created, Tokens: each(a.Tokens, tokenOf)}
}

func (s *server) ListUsers(r *http.Request) (any, error) {
	list, err := s.o.Access.People(r.Context(), callerOf(r).Who)
	return client.UserList{Users: each(list, personOf)}, err
}

func (s *server) GetUser(r *http.Request, name string) (any, error) {
	acc, err := s.o.Access.Person(r.Context(), callerOf(r).Who, name)
	return personOf(&acc), err
}

func (s *server) PutUser(r *http.Request, name string, body client.UserSpec) (any, error) {
	spec := access.Spec{Name: name, Disabled: body.Disabled, Password: body.Password, Issuer: body.Issuer,
		Subject: body.Subject, IfRev: body.IfRev}
	if body.Grants != nil {
		spec.Grants = new(each(*body.Grants, coreGrant))
	}
	acc, change, err := s.o.Access.Save(r.Context(), callerOf(r).Who, spec)
	return client.UserResult{Name: name, Rev: acc.Edited, Change: change}, err
}

func (s *server) DeleteUser(r *http.Request, name string) (any, error) {
	return client.UserResult{Name: name, Change: access.Deleted}, s.o.Access.Delete(r.Context(), callerOf(r).Who, name)
}

func (s *server) RevokeUserToken(r *http.Request, person, token string) (any, error) {
	return client.Done{Done: true}, s.o.Access.EndToken(r.Context(), callerOf(r).Who, person, token)
}

// kinds has the API name of each kind of caller.
var kinds = map[access.Kind]string{access.AdminToken: "admin-token", access.ReadToken: "read-token", access.Person: "session",
	access.PersonToken: "token"}

func (s *server) GetMe(r *http.Request) (any, error) {
	who := callerOf(r).Who
	out := client.Me{Name: who.Name, By: kinds[who.Kind], Grants: each(who.Grants, grantOf), Within: each(who.Within, grantOf),
		MustChange: who.MustChange}
	if !who.IsPerson() {
		return out, nil
	}
	acc, err := s.o.Access.Account(r.Context(), who)
	out.Language, out.Zone, out.HasPassword = string(acc.Language), acc.Zone, acc.Password != ""
	for _, x := range acc.Sessions {
		out.Sessions = append(out.Sessions, client.UserSession{ID: x.ID, CreatedAt: x.Created, SeenAt: x.Seen, From: x.From, Agent: x.Agent,
			Current: x.ID == who.Session})
	}
	out.Tokens = each(acc.Tokens, tokenOf)
	return out, err
}

func (s *server) PutSettings(r *http.Request, body client.UserSettings) (any, error) {
	if err := words.CheckLanguage(core.Language(body.Language)); err != nil {
		return nil, err
	}
	return client.Done{Done: true}, s.o.Access.SetLook(r.Context(), callerOf(r).Who, core.Language(body.Language), body.Zone)
}

func (s *server) ChangePassword(r *http.Request, body client.NewPassword) (any, error) {
	return client.Done{Done: true}, s.o.Access.ChangePassword(r.Context(), callerOf(r).Who, body.Old, body.Password)
}

func (s *server) EndSession(r *http.Request, id string) (any, error) {
	return client.Done{Done: true}, s.o.Access.EndSession(r.Context(), callerOf(r).Who, id)
}

func (s *server) EndSessions(r *http.Request) (any, error) {
	return s.EndSession(r, "")
}

func (s *server) CreateToken(r *http.Request, body client.NewTokenSpec) (any, error) {
	if body.Grants != nil && len(body.Grants) == 0 {
		return nil, core.Invalid("grants", "[]", "name at least one role; without `grants`, the token has all your permissions")
	}
	t, secret, err := s.o.Access.MakeToken(r.Context(), callerOf(r).Who, access.TokenSpec{Name: body.Name,
		Grants: each(body.Grants, coreGrant), End: body.EndsAt})
	return client.NewToken{Token: tokenOf(&t), Secret: secret}, err
}

func (s *server) RevokeToken(r *http.Request, token string) (any, error) {
	who := callerOf(r).Who
	return client.Done{Done: true}, s.o.Access.EndToken(r.Context(), who, who.Name, token)
}

func (s *server) ListViews(r *http.Request) (any, error) {
	list, err := s.o.Access.Views(r.Context(), callerOf(r).Who)
	return client.SavedViews{Views: each(list, func(v *access.View) client.SavedView {
		return client.SavedView{Name: v.Name, Page: v.Page, Query: v.Query, By: v.By, Shared: v.Shared}
	})}, err
}

func (s *server) PutView(r *http.Request, body client.SavedView) (any, error) {
	return client.Done{Done: true}, s.o.Access.SaveView(r.Context(), callerOf(r).Who, access.View{Name: body.Name, Page: body.Page,
		Query: body.Query, Shared: body.Shared})
}

func (s *server) DeleteView(r *http.Request, params client.DeleteViewParams) (any, error) {
	return client.Done{Done: true}, s.o.Access.DeleteView(r.Context(), callerOf(r).Who, params.Name, params.Shared)
}
