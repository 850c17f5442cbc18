package api

import (
	"net/http"
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
)

func grantsOf(list []access.Grant) []client.Grant {
	var out []client.Grant
	for _, g := range list {
		o := client.Grant{App: g.App, Role: string(g.Role)}
		for _, r := range g.Rights {
			o.Rights = append(o.Rights, string(r))
		}
		out = append(out, o)
	}
	return out
}

func coreGrants(list []client.Grant) []access.Grant {
	out := make([]access.Grant, len(list))
	for i, g := range list {
		out[i] = access.Grant{App: g.App, Role: access.Role(g.Role)}
		for _, r := range g.Rights {
			out[i].Rights = append(out[i].Rights, access.Right(r))
		}
	}
	return out
}

// FormatGrants is grants as people write them: viewer shop:editor+scripts.
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

// ParseGrants reads the words of FormatGrants; what is no role, or no right, is refused where it is
// given.
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

func tokenOf(t *access.Token) client.PersonToken {
	return client.PersonToken{Name: t.Name, Grants: grantsOf(t.Grants), CreatedAt: t.Created, EndsAt: t.End}
}

func personOf(a *access.Account) client.Person {
	p := client.Person{Name: a.Name, Rev: a.Edited, Disabled: a.Disabled, HasPassword: a.Password != "", MustChange: a.MustChange,
		Issuer: a.Issuer, Subject: a.Subject, Grants: grantsOf(a.Grants), Sessions: len(a.Sessions), LastSeenAt: a.LastSeen, CreatedAt: a.Created}
	for i := range a.Tokens {
		p.Tokens = append(p.Tokens, tokenOf(&a.Tokens[i]))
	}
	return p
}

var errNoPeople = core.Errorf(core.CodeRefused, "no people are kept here")

// people is the use case of people; it has answered where there is none.
func (s *server) people(w http.ResponseWriter, r *http.Request) (*access.Access, bool) {
	if s.o.Access == nil {
		s.fail(w, r, errNoPeople)
		return nil, false
	}
	return s.o.Access, true
}

// ListPeople lists all people.
func (s *server) ListPeople(w http.ResponseWriter, r *http.Request) {
	a, ok := s.people(w, r)
	if !ok {
		return
	}
	list, err := a.People(r.Context(), callerOf(r).Who)
	out := client.PeopleList{People: make([]client.Person, len(list))}
	for i := range list {
		out.People[i] = personOf(&list[i])
	}
	s.reply(w, r, out, err)
}

// GetPerson reads one.
func (s *server) GetPerson(w http.ResponseWriter, r *http.Request, name string) {
	a, ok := s.people(w, r)
	if !ok {
		return
	}
	acc, err := a.Person(r.Context(), callerOf(r).Who, name)
	s.reply(w, r, personOf(&acc), err)
}

// PutPerson makes or changes one.
func (s *server) PutPerson(w http.ResponseWriter, r *http.Request, name string) {
	a, ok := s.people(w, r)
	if !ok {
		return
	}
	var body client.PersonSpec
	if err := decode(w, r, MaxBody, &body); err != nil {
		s.fail(w, r, err)
		return
	}
	spec := access.Spec{Name: name, Disabled: body.Disabled, Password: body.Password, Issuer: body.Issuer,
		Subject: body.Subject, IfRev: body.IfRev}
	if body.Grants != nil {
		grants := coreGrants(*body.Grants)
		spec.Grants = &grants
	}
	acc, change, err := a.Save(r.Context(), callerOf(r).Who, spec)
	s.reply(w, r, client.PersonResult{Name: name, Rev: acc.Edited, Change: change}, err)
}

// DeletePerson removes one.
func (s *server) DeletePerson(w http.ResponseWriter, r *http.Request, name string) {
	if a, ok := s.people(w, r); ok {
		s.reply(w, r, client.PersonResult{Name: name, Change: access.Deleted}, a.Delete(r.Context(), callerOf(r).Who, name))
	}
}

// EndTokenOf ends a token of anybody.
func (s *server) EndTokenOf(w http.ResponseWriter, r *http.Request, person, token string) {
	if a, ok := s.people(w, r); ok {
		s.reply(w, r, client.Done{Done: true}, a.EndToken(r.Context(), callerOf(r).Who, person, token))
	}
}

// kinds are what callers are known by, in words.
var kinds = map[access.Kind]string{access.AdminToken: "admin-token", access.ReadToken: "read-token", access.Person: "session",
	access.PersonToken: "token"}

// GetMe says who asks.
func (s *server) GetMe(w http.ResponseWriter, r *http.Request) {
	who := callerOf(r).Who
	out := client.Me{Name: who.Name, By: kinds[who.Kind], Grants: grantsOf(who.Grants), Within: grantsOf(who.Within),
		MustChange: who.MustChange}
	if !who.IsPerson() {
		s.write(w, http.StatusOK, out)
		return
	}
	a, ok := s.people(w, r)
	if !ok {
		return
	}
	acc, err := a.Account(r.Context(), who)
	out.Language, out.Zone, out.HasPassword = string(acc.Language), acc.Zone, acc.Password != ""
	for _, x := range acc.Sessions {
		out.Sessions = append(out.Sessions, client.PersonSession{ID: x.ID, CreatedAt: x.Created, SeenAt: x.Seen, From: x.From, Agent: x.Agent,
			Current: x.ID == who.Session})
	}
	for i := range acc.Tokens {
		out.Tokens = append(out.Tokens, tokenOf(&acc.Tokens[i]))
	}
	s.reply(w, r, out, err)
}

// SetLook sets in which language and zone one reads.
func (s *server) SetLook(w http.ResponseWriter, r *http.Request) {
	a, ok := s.people(w, r)
	if !ok {
		return
	}
	var body client.LookRequest
	if err := decode(w, r, MaxBody, &body); err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, r, client.Done{Done: true}, a.SetLook(r.Context(), callerOf(r).Who, core.Language(body.Language), body.Zone))
}

// ChangePassword changes one's own.
func (s *server) ChangePassword(w http.ResponseWriter, r *http.Request) {
	a, ok := s.people(w, r)
	if !ok {
		return
	}
	var body client.NewPassword
	if err := decode(w, r, MaxBody, &body); err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, r, client.Done{Done: true}, a.ChangePassword(r.Context(), callerOf(r).Who, body.Old, body.Password))
}

// EndSession ends one of one's own.
func (s *server) EndSession(w http.ResponseWriter, r *http.Request, id string) {
	if a, ok := s.people(w, r); ok {
		s.reply(w, r, client.Done{Done: true}, a.EndSession(r.Context(), callerOf(r).Who, id))
	}
}

// EndSessions ends all but the one that asks.
func (s *server) EndSessions(w http.ResponseWriter, r *http.Request) { s.EndSession(w, r, "") }

// MakeToken makes one.
func (s *server) MakeToken(w http.ResponseWriter, r *http.Request) {
	a, ok := s.people(w, r)
	if !ok {
		return
	}
	var body client.NewTokenSpec
	if err := decode(w, r, MaxBody, &body); err != nil {
		s.fail(w, r, err)
		return
	}
	t, secret, err := a.MakeToken(r.Context(), callerOf(r).Who, access.TokenSpec{Name: body.Name,
		Grants: coreGrants(body.Grants), End: body.EndsAt})
	s.reply(w, r, client.NewToken{Token: tokenOf(&t), Secret: secret}, err)
}

// EndToken ends one of one's own.
func (s *server) EndToken(w http.ResponseWriter, r *http.Request, token string) {
	if a, ok := s.people(w, r); ok {
		who := callerOf(r).Who
		s.reply(w, r, client.Done{Done: true}, a.EndToken(r.Context(), who, who.Name, token))
	}
}

// ListViews lists one's own and those that others share.
func (s *server) ListViews(w http.ResponseWriter, r *http.Request) {
	a, ok := s.people(w, r)
	if !ok {
		return
	}
	list, err := a.Views(r.Context(), callerOf(r).Who)
	out := client.SavedViews{Views: make([]client.SavedView, len(list))}
	for i, v := range list {
		out.Views[i] = client.SavedView{Name: v.Name, Page: v.Page, Query: v.Query, By: v.By, Shared: v.Shared}
	}
	s.reply(w, r, out, err)
}

// PutView keeps one.
func (s *server) PutView(w http.ResponseWriter, r *http.Request) {
	a, ok := s.people(w, r)
	if !ok {
		return
	}
	var body client.SavedView
	if err := decode(w, r, MaxBody, &body); err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, r, client.Done{Done: true}, a.SaveView(r.Context(), callerOf(r).Who, access.View{Name: body.Name, Page: body.Page,
		Query: body.Query, Shared: body.Shared}))
}

// DeleteView removes one.
func (s *server) DeleteView(w http.ResponseWriter, r *http.Request, params client.DeleteViewParams) {
	if a, ok := s.people(w, r); ok {
		s.reply(w, r, client.Done{Done: true}, a.DeleteView(r.Context(), callerOf(r).Who, params.Name, params.Shared))
	}
}
